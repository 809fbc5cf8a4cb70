"""A share consumer's sessions with the brokers that lead its partitions, without I/O (KIP-932).

Each leader has one fetch in flight, over a connection of its own. A poll returns at the first
answer that brings records; a later one takes the others. What these bring is locked meanwhile.
Acknowledgements travel with the next fetch from the broker that handed the records out, or by
themselves when they are committed or renew a lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from fencepost.client import asking
from fencepost.client.clock import now_ms
from fencepost.client.cluster_view import ClusterView
from fencepost.client.consumer_membership import IdPartition
from fencepost.client.conversation import Begin, Conversation, Exchange, FirstOf, Pause, Tell
from fencepost.client.errors import BrokerError, ClientError, refusal
from fencepost.client.metadata import Node, TopicPartition
from fencepost.client.share_membership import LOWEST_VERSION, ShareMembership
from fencepost.client.share_records import ShareRecord, read_acquired
from fencepost.client.share_session import (
    RENEWING_VERSION,
    Arrived,
    FetchLimits,
    PendingFetch,
    Sent,
    ShareSession,
)
from fencepost.wire.api.share_acknowledge import ShareAcknowledgeRequest
from fencepost.wire.api.share_fetch import PartitionData, ShareFetchRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

log = logging.getLogger("fencepost.client")

SESSION_LOST: Final = {
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
}
Results = dict[TopicPartition, ClientError | None]
"""How a commit went for each partition: the error, or None."""
CommitCallback = Callable[[Mapping[TopicPartition, frozenset[int]], ClientError | None], Any]
"""Called with the offsets that were acknowledged, and why that failed, if it did."""

Leading = tuple[ShareSession, dict[IdPartition, TopicPartition]]
"""A session with a broker, and the assigned partitions that it leads."""


class ShareSessions:
    """See the module. `member` knows what is assigned."""

    def __init__(self, view: ClusterView[Any], group: str, member: ShareMembership) -> None:
        self.acquisition_lock_timeout_ms: int | None = None
        """How long records are locked, as a broker said last."""
        self.callback: CommitCallback | None = None
        """Is called with the outcome of acknowledgements, a partition at a time."""
        self._view = view
        self._config = view.config
        self._group = group
        self._member = member
        self._open: dict[int, ShareSession] = {}
        self._lost: list[ShareSession] = []
        self._arrived: list[Arrived] = []
        self._purpose = f"share fetches {member.member_id}"
        self._held_off: dict[int, float] = {}
        """Brokers that have answered with an error, and until when they are not asked again."""
        self._turn = 0

    def __iter__(self) -> Iterator[ShareSession]:
        """All that have handed out records, the newest of a broker first: a record may have come
        again after its session was lost."""
        return iter([*self._open.values(), *reversed(self._lost)])

    # -- sessions --------------------------------------------------------------------------------

    def _leading(
        self,
    ) -> Conversation[list[Leading]]:
        """The sessions with the leaders of what is assigned, and what each leads; those without any
        partition keep theirs until they are asked to forget them."""
        assigned = self._member.assignment
        names = yield from asking.naming_topics(self._view, {one.topic_id for one in assigned})
        by_node: dict[Node, dict[IdPartition, TopicPartition]] = {}
        deadline = self._view.deadline()
        for one in sorted(assigned):
            if one.topic_id not in names:
                continue  # deleted, or not known to the broker yet
            where = TopicPartition(names[one.topic_id], one.partition)
            try:
                node, _ = yield from asking.leader_once(self._view, *where, deadline)
            except ClientError as error:
                if not error.retriable:
                    raise
                self._view.note_failure(error)
            else:
                by_node.setdefault(node, {})[one] = where
        found = []
        for node, wanted in by_node.items():
            try:
                found.append(((yield from self._session(node)), wanted))
            except ClientError as error:
                if not error.retriable:
                    raise
                self._view.note_failure(error)
        leading = {node.node_id for node in by_node}
        idle = [one for at, one in self._open.items() if at not in leading and one.fetched]
        return [*found, *((one, {}) for one in idle if one.is_open)]

    def _session(self, node: Node) -> Conversation[ShareSession]:
        known = self._open.get(node.node_id)
        if known is not None and known.pending is not None:
            return known  # its answer says whether it is lost
        connection = yield from asking.connect(node, purpose=self._purpose)
        if known is not None and not known.is_lost and known.connection is connection:
            return known
        if known is not None:
            self._lose(known)
        made = ShareSession(self._group, self._member.member_id, node, connection)
        self._open[node.node_id] = made
        return made

    def _lose(self, session: ShareSession) -> None:
        """The broker does not have the session any more, nor its locks."""
        session.is_lost = True
        if self._open.get(session.node.node_id) is session:
            del self._open[session.node.node_id]
            if session.outstanding():
                self._lost.append(session)

    def _failing_lost(self, results: Results) -> Conversation[None]:
        """Acknowledgements of lost sessions fail."""
        for session in list(self._open.values()):
            if session.epoch and session.pending is None and not session.is_open:
                self._lose(session)
        for session in self._lost:
            sent = session.take()
            code = ErrorCode.SHARE_SESSION_NOT_FOUND
            error = BrokerError.of(code, "the records' share session has ended")
            yield from self._telling(sent, dict.fromkeys(sent, error), results)
        self._lost = [session for session in self._lost if session.outstanding()]

    def _telling(
        self, sent: Sent, errors: Mapping[TopicPartition, ClientError | None], results: Results
    ) -> Conversation[None]:
        """Note what came of acknowledgements, and call the application's callback."""
        for where, said in sent.items():
            error = errors.get(where)
            if error is not None:
                log.warning("share group %s: acknowledging failed: %s", self._group, error)
            if said.types:
                results[where] = error
                if self.callback is not None:
                    offsets = {where: said.offsets}
                    yield from Tell(partial(self.callback, offsets), error)

    # -- acknowledging ---------------------------------------------------------------------------

    def sending(self) -> Conversation[Results]:
        """Send all acknowledgements, and wait for the outcome also of those on their way."""
        results: Results = {}
        yield from self._failing_lost(results)
        for session in list(self._open.values()):
            if session.pending is not None and session.pending.sent:
                yield from self._finishing(session, results)
            yield from self._acknowledging(session, results)
        return results

    def _acknowledging(
        self, session: ShareSession, results: Results, *, closes: bool = False
    ) -> Conversation[None]:
        if session.pending is not None and (session.has_to_send or closes):
            yield from self._finishing(session, results)
        sent = session.take()
        if not sent and not (closes and session.is_open):
            return
        request = session.acknowledge_request(sent, closes=closes)
        lowest = RENEWING_VERSION if request.is_renew_ack else LOWEST_VERSION
        errors: dict[TopicPartition, ClientError | None] = {}
        try:
            version = session.connection.version_for(ShareAcknowledgeRequest, lowest=lowest)
            response = yield from Exchange(session.connection, request, version)
            self._check(session, response)
        except ClientError as error:
            self._lose(session)
            errors = dict.fromkeys(sent, error)
        except BaseException:  # whether the broker took it is unknown
            self._lose(session)
            raise
        else:
            session.on_answered(is_fetch=False)
            if request.is_renew_ack and response.acquisition_lock_timeout_ms:
                self.acquisition_lock_timeout_ms = response.acquisition_lock_timeout_ms
            codes = {
                (Uuid(topic.topic_id), one.partition_index): (one.error_code, one.error_message)
                for topic in response.responses
                for one in topic.partitions
            }
            errors = self._settle(session, sent, codes)
        yield from self._telling(sent, errors, results)

    def _settle(
        self,
        session: ShareSession,
        sent: Sent,
        codes: Mapping[tuple[Uuid, int], tuple[int, str | None]],
    ) -> dict[TopicPartition, ClientError | None]:
        """What the broker said to acknowledgements; what was renewed can be acknowledged again."""
        errors: dict[TopicPartition, ClientError | None] = {}
        for where, said in sent.items():
            delivered = session.delivered[where]
            unsaid = (int(ErrorCode.UNKNOWN_SERVER_ERROR), "the broker did not answer about it")
            code, text = codes.get((delivered.topic_id, where.partition), unsaid)
            if code == ErrorCode.NONE:
                errors[where] = None
                delivered.on_renewed(said)
                continue
            topic, partition = where
            what = text or refusal(code)
            errors[where] = error = BrokerError.of(code, what, topic=topic, partition=partition)
            self._view.note_failure(error)
        return errors

    def _check(self, session: ShareSession, response: Any) -> None:
        """Raise the error of a whole answer. BrokerError."""
        code = response.error_code
        if code != ErrorCode.NONE:
            text = response.error_message or refusal(code)
            raise BrokerError.of(code, text, host=session.node.address)

    # -- fetching --------------------------------------------------------------------------------

    def polling(self, max_wait_ms: float) -> Conversation[list[ShareRecord]]:
        """Records, if any can be acquired in time; sends acknowledgements before. BrokerError for
        what trying again cannot help."""
        yield from self._failing_lost({})
        self._lost.clear()  # what was renewed there is locked no longer
        for session in list(self._open.values()):
            if session.pending is not None and session.has_to_send:
                yield from self._finishing(session, {})
            if session.renews():  # a fetch that renewed would bring no records (KIP-1222)
                yield from self._acknowledging(session, {})
        leading = yield from self._leading()
        for session in list(self._open.values()):
            fetched = next((set(ws.values()) for one, ws in leading if one is session), set())
            if any(at not in fetched for at, one in session.delivered.items() if one.is_to_be_sent):
                yield from self._acknowledging(session, {})
        leading = [(one, wanted) for one, wanted in leading if not one.is_lost]
        if not any(wanted for _, wanted in leading):
            yield from self._fetching(leading, 0)
            if not self._arrived:
                yield from Pause(max_wait_ms)
        elif self._config.share_acquire_mode == "record_limit":
            yield from self._fetching_in_turn(leading, max_wait_ms)
        else:
            yield from self._fetching(leading, max_wait_ms)
        return self._hand_out()

    def _hand_out(self) -> list[ShareRecord]:
        """What has arrived and is locked still; it is to be acknowledged from now on."""
        found: list[ShareRecord] = []
        arrived, self._arrived = self._arrived, []
        for one in arrived:
            if one.session.is_lost or now_ms() > one.lapsed_at_ms:
                log.debug("share group %s: %s: the lock has run out", self._group, one.where)
                continue
            delivered = one.session.deliver(one.where, one.topic_id)
            for record in one.records:
                delivered.hand_out(record.offset)
            found += one.records
        return found

    def _fetching_in_turn(
        self,
        leading: list[Leading],
        max_wait_ms: float,
    ) -> Conversation[None]:
        """One broker after the other, so that no more than `max.poll.records` are acquired."""
        self._turn += 1
        start = self._turn % len(leading)
        for one in [*leading[start:], *leading[:start]]:
            if not self._arrived:
                yield from self._fetching([one], max_wait_ms / len(leading), takes_all=True)

    def _fetching(
        self,
        leading: list[Leading],
        max_wait_ms: float,
        *,
        takes_all: bool = False,
    ) -> Conversation[None]:
        """Send a fetch to each broker that has none in flight, and take the answers that come in
        time. If it `takes_all`, and of brokers that are not to wait for records, no fetch stays in
        flight."""
        is_exact = self._config.share_acquire_mode == "record_limit"
        lowest = RENEWING_VERSION if is_exact else LOWEST_VERSION
        now = now_ms()
        self._held_off = {at: until for at, until in self._held_off.items() if until > now}
        free = [
            (session, wanted)
            for session, wanted in leading
            if session.pending is None and session.node.node_id not in self._held_off
        ]
        versions = [
            session.connection.version_for(ShareFetchRequest, lowest=lowest) for session, _ in free
        ]
        hopeless: list[ClientError] = []
        for (session, wanted), version in zip(free, versions, strict=True):
            yield from self._sending_fetch(session, wanted, version, max_wait_ms, hopeless)
        wait_ms = 0 if self._arrived or hopeless else max_wait_ms
        wait_ms = min([wait_ms, *(until - now for until in self._held_off.values())])
        asked = [one for one in self._open.values() if one.pending is not None]
        yield from self._receiving(asked, wait_ms, hopeless, {})
        for session in asked:
            if session.pending is not None and (takes_all or session.pending.max_wait_ms == 0):
                yield from self._finishing(session, {}, hopeless)
        if hopeless and not self._arrived:
            raise hopeless[0]

    def _sending_fetch(
        self,
        session: ShareSession,
        wanted: Mapping[IdPartition, TopicPartition],
        version: int,
        max_wait_ms: float,
        hopeless: list[ClientError],
    ) -> Conversation[None]:
        config = self._config
        limits = FetchLimits(
            int(max_wait_ms) if wanted else 0,
            config.fetch_min_bytes,
            config.fetch_max_bytes,
            config.max_poll_records,
            config.share_acquire_mode == "record_limit",
        )
        sent = session.take(set(wanted.values()))
        request = session.fetch_request(wanted, limits, sent)
        timeout_ms = limits.max_wait_ms + config.request_timeout_ms
        exchange = Exchange(session.connection, request, version, timeout_ms=timeout_ms)
        try:
            begun = yield from Begin(exchange)
        except ClientError as error:
            errors = self._on_lost(session, sent, error, hopeless)
            yield from self._telling(sent, errors, {})
        else:
            session.pending = PendingFetch(begun, wanted, sent, limits.max_wait_ms, now_ms())

    def _finishing(
        self, session: ShareSession, results: Results, hopeless: list[ClientError] | None = None
    ) -> Conversation[None]:
        """Wait for the answer to the fetch in flight. Without `hopeless` errors of partitions are
        left to the next fetch, which meets them again."""
        while (pending := session.pending) is not None:
            wait_ms = pending.max_wait_ms + self._config.request_timeout_ms
            errors = [] if hopeless is None else hopeless
            yield from self._receiving([session], wait_ms, errors, results)

    def _receiving(
        self,
        sessions: list[ShareSession],
        max_wait_ms: float,
        hopeless: list[ClientError],
        results: Results,
    ) -> Conversation[None]:
        """Wait for an answer and take in all that have come; what trying again cannot help is
        appended to `hopeless`."""
        asked = [(one, one.pending) for one in sessions if one.pending is not None]
        if not asked:
            yield from Pause(max_wait_ms)
            return
        answers = yield from FirstOf([pending.begun for _, pending in asked], max_wait_ms)
        told: list[tuple[Sent, dict[TopicPartition, ClientError | None]]] = []
        # All before anything is told: a callback may fail, or be cancelled.
        for (session, pending), answer in zip(asked, answers, strict=True):
            if answer is not None and session.pending is pending:
                session.pending = None
                told.append((pending.sent, self._take(session, pending, answer, hopeless)))
        for sent, errors in told:
            yield from self._telling(sent, errors, results)

    def _on_lost(
        self, session: ShareSession, sent: Sent, error: ClientError, hopeless: list[ClientError]
    ) -> dict[TopicPartition, ClientError | None]:
        """A fetch has failed as a whole, and the acknowledgements that it carried."""
        self._lose(session)
        self._view.note_failure(error)
        if error.code not in SESSION_LOST:
            self._hold_off(session)
            if not error.retriable:
                hopeless.append(error)
        return dict.fromkeys(sent, error)

    def _hold_off(self, session: ShareSession) -> None:
        """Ask this broker again after a pause only, in which others are listened to."""
        self._held_off[session.node.node_id] = now_ms() + self._config.retry_backoff_ms

    def _take(
        self,
        session: ShareSession,
        pending: PendingFetch,
        response: Any,
        hopeless: list[ClientError],
    ) -> dict[TopicPartition, ClientError | None]:
        """Take in the answer to a fetch; what came of the acknowledgements that it carried."""
        try:
            if isinstance(response, ClientError):
                raise response
            self._check(session, response)
        except ClientError as error:
            return self._on_lost(session, pending.sent, error, hopeless)
        session.on_answered(is_fetch=True)
        if response.acquisition_lock_timeout_ms:
            self.acquisition_lock_timeout_ms = response.acquisition_lock_timeout_ms
        codes: dict[tuple[Uuid, int], tuple[int, str | None]] = {}
        for topic in response.responses:
            topic_id = Uuid(topic.topic_id)
            for entry in topic.partitions:
                told = (entry.acknowledge_error_code, entry.acknowledge_error_message)
                codes[topic_id, entry.partition_index] = told
                where = pending.wanted.get(IdPartition(topic_id, entry.partition_index))
                if where is not None:
                    self._take_records(session, pending, where, topic_id, entry, hopeless)
        return self._settle(session, pending.sent, codes)

    def _take_records(
        self,
        session: ShareSession,
        pending: PendingFetch,
        where: TopicPartition,
        topic_id: Uuid,
        entry: PartitionData,
        hopeless: list[ClientError],
    ) -> None:
        """The records acquired of a partition have arrived."""
        if entry.error_code != ErrorCode.NONE:
            error = BrokerError.of(
                entry.error_code,
                entry.error_message or refusal(entry.error_code),
                host=session.node.address,
                topic=where.topic,
                partition=where.partition,
            )
            self._view.note_failure(error)
            self._hold_off(session)
            if not error.retriable:
                hopeless.append(error)
            return
        found = read_acquired(where, memoryview(entry.records or b""), entry.acquired_records)
        if found.error is not None:
            log.warning("share group %s: %s: rejected: %s", self._group, where, found.error)
        session.deliver(where, topic_id).unread += found.unread
        if found.records:
            lock_ms = self.acquisition_lock_timeout_ms or float("inf")
            lapsed_at_ms = pending.sent_at_ms + pending.max_wait_ms + lock_ms
            self._arrived.append(Arrived(session, where, topic_id, found.records, lapsed_at_ms))

    # -- the end ---------------------------------------------------------------------------------

    def closing(self) -> Conversation[None]:
        """Send the acknowledgements, and have brokers release the rest."""
        results: Results = {}
        yield from self._failing_lost(results)
        for session in list(self._open.values()):
            for delivered in session.delivered.values():
                delivered.drop_renewals()
            pending = session.pending
            if pending is not None and not (pending.sent or session.has_to_send):
                continue  # the session ends with its connection
            yield from self._acknowledging(session, results, closes=True)
        self._open.clear()
        self._lost.clear()
        self._arrived.clear()
        self._view.close_connections(self._purpose)
