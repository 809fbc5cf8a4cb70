"""How a simulated broker answers Fetch: by `machines.fetch`, as the broker's handler does.

When a fetch is answered, with how much of what, what a session leaves out and who waits is the
machines' to say; here a request is a message that has arrived, and its answer is read at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.batch.header import iter_headers
from fencepost.log.error_codes import LOG_ERRORS
from fencepost.machines.fetch import (
    NO_WAIT,
    Asker,
    FetchContext,
    FetchOutcome,
    FetchTerms,
    FetchWanted,
    Look,
    ReadBudget,
    bytes_to_wait_with,
    is_out_of_date,
    look_at,
)
from fencepost.machines.partition.inputs import ANY_BROKER_EPOCH, Isolation
from fencepost.machines.probes import probe
from fencepost.runtime.delayed_fetches import SessionKey
from fencepost.runtime.fetch_arrival import look_on_arrival
from fencepost.runtime.log_errors import answer_log_error
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.access import Find
from fencepost.sim.brokers.checkpoints import key_of
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.sim.partition_oracle import Place, passed
from fencepost.wire.api.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

Reply = Callable[[Any], None]
_Look = Look[HostedPartition, SessionKey]


def fetch(broker: BrokerProcess, find: Find, request: FetchRequest, reply: Reply) -> None:
    """Answer with records, or wait for them. `find` finds the partitions of the request."""
    wanted: dict[SessionKey, FetchWanted[SessionKey]] = {
        (key := (_topic_of(topic), one.partition)): FetchWanted(
            key,
            one.fetch_offset,
            one.partition_max_bytes,
            one.current_leader_epoch,
            one.last_fetched_epoch,
            one.log_start_offset,
        )
        for topic in request.topics
        for one in topic.partitions
    }
    session = broker.fetches.sessions.begin(
        request.session_id,
        request.session_epoch,
        list(wanted.values()),
        [
            (_topic_of(topic), index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ],
        is_follower=max(request.replica_state.replica_id, request.replica_id) >= 0,
        uses_topic_ids=all(isinstance(key[0], Uuid) for key in wanted),
        now_ms=broker.clocks.now_ms(),
    )
    if isinstance(session, ErrorCode):
        probe("sim.fetch.session_refused")
        reply(FetchResponse(error_code=int(session)))
        return
    answering = _Fetch(broker, find, request, session, reply)
    if session.session is not None:
        broker.fetches.arrived(session.session, answering.asker)
    answering.begin()


def _topic_of(topic: Any) -> Uuid | str:
    """What the request knows the topic by."""
    return topic.topic_id if topic.topic_id != Uuid.ZERO else topic.topic


class _Fetch:
    """One fetch until its answer."""

    def __init__(
        self,
        broker: BrokerProcess,
        find: Find,
        request: FetchRequest,
        session: FetchContext[SessionKey],
        reply: Reply,
    ) -> None:
        state, now_ms = request.replica_state, broker.clocks.now_ms()
        self._broker = broker
        self._find = find
        self._session = session
        self._reply = reply
        self.terms = FetchTerms(
            min_bytes=request.min_bytes,
            max_bytes=request.max_bytes,
            deadline_ms=now_ms + request.max_wait_ms if request.max_wait_ms > 0 else NO_WAIT,
            replica_id=max(state.replica_id, request.replica_id),
            isolation=request.isolation_level,
            broker_epoch=state.replica_epoch if state.replica_id >= 0 else ANY_BROKER_EPOCH,
        )

    @property
    def asker(self) -> Asker:
        """How it is asked."""
        return Asker.of(self.terms)

    def begin(self) -> None:
        """Answer, or wait."""
        driver, terms = self._broker.ports.driver, self.terms
        looks: list[_Look] = [
            look_on_arrival(driver, self._find(*wanted.key), wanted, terms)
            if terms.is_replica
            else look_at(self._find(*wanted.key), wanted, terms)
            for wanted in self._session.partitions
        ]
        sizes = bytes_to_wait_with(looks, terms, others_are_quiet=self._session.has_quiet)
        if sizes is None or is_out_of_date(looks, terms, len(self._session.partitions)):
            self._complete()
            return
        probe("sim.fetch.waits")
        found = {
            look.partition.key: (look.wanted, size_bytes)
            for look, size_bytes in zip(looks, sizes, strict=True)
            if look.partition is not None and not (look.is_known and self._settle(look))
        }
        self._broker.fetches.park(
            self._complete,
            {key: wanted for key, (wanted, _) in found.items()},
            terms,
            [(key, size_bytes) for key, (_, size_bytes) in found.items()],
            self._session.session,
        )

    def _complete(self) -> None:
        """Read afresh, and answer with what the session does not leave out."""
        budget = ReadBudget(self.terms.max_bytes)
        parts: list[tuple[SessionKey, PartitionData]] = []
        outcomes: list[tuple[SessionKey, FetchOutcome]] = []
        for wanted in self._session.partitions:
            look = look_at(self._find(*wanted.key), wanted, self.terms)
            part, size_bytes = self._read(look, budget)
            budget.spend(size_bytes)
            parts.append((wanted.key, part))
            if not part.error_code:
                self._settle(look)
            outcome = FetchOutcome(
                size_bytes,
                part.high_watermark,
                part.log_start_offset,
                part.error_code,
                part.diverging_epoch.end_offset >= 0,
                part.preferred_read_replica >= 0,
            )
            outcomes.append((wanted.key, outcome))
        finished = self._session.finish(outcomes, self._broker.clocks.now_ms())
        response = FetchResponse(
            error_code=int(finished.error_code), session_id=finished.session_id
        )
        for position in finished.included:
            (topic, _), part = parts[position]
            named = (
                FetchableTopicResponse(topic_id=topic, partitions=[part])
                if isinstance(topic, Uuid)
                else FetchableTopicResponse(topic=str(topic), partitions=[part])
            )
            response.responses.append(named)
        self._reply(response)

    def _settle(self, look: _Look) -> bool:
        """Whether the session need not look at it until it moves: who asks has all of it."""
        session, hosted = self._session.session, look.partition
        if session is None or hosted is None or not look.is_at_end:
            return False
        return self._broker.fetches.settle(session, hosted, look.wanted.key, self.asker)

    def _read(self, look: _Look, budget: ReadBudget) -> tuple[PartitionData, int]:
        """One partition's part of the answer, and how many bytes of records it has."""
        index, bounds = look.wanted.key[1], look.bounds
        if bounds is None:
            return _refused(index, look.error), 0
        part = PartitionData(
            partition_index=index,
            high_watermark=bounds.high_watermark,
            last_stable_offset=bounds.last_stable_offset,
            log_start_offset=bounds.log_start_offset,
            records=b"",
        )
        if bounds.diverging is not None:
            part.diverging_epoch = EpochEndOffset(
                epoch=bounds.diverging.epoch, end_offset=bounds.diverging.end_offset
            )
            return part, 0
        limit_bytes = budget.limit_for(look)
        hosted = look.partition
        if limit_bytes is None or hosted is None:
            return part, 0
        try:
            found = hosted.log.read(
                look.wanted.fetch_offset, limit_bytes, bounds.upper_bound, budget.takes_any_batch
            )
        except LOG_ERRORS as error:
            replicas = self._broker.replicas
            return _refused(index, answer_log_error(replicas, hosted, "reading", error)), 0
        part.records = b"".join(bytes(buffer) for buffer in found.buffers)
        self._show(hosted, part.records)
        if self.terms.isolation == Isolation.READ_COMMITTED:
            part.aborted_transactions = _aborted(hosted, look.wanted.fetch_offset, part.records)
        return part, found.size_bytes

    def _show(self, hosted: HostedPartition, records: bytes) -> None:
        """Show the observer what is served."""
        broker = self._broker
        for one in passed(Place.SERVED, broker.id, key_of(hosted), records):
            broker.world.observer.batch_passed(one)


def _refused(index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=index, error_code=int(error), high_watermark=-1, records=b""
    )


def _aborted(hosted: HostedPartition, from_offset: int, records: bytes) -> list[AbortedTransaction]:
    """The aborted transactions among what was read, in the order of their markers."""
    end_offset = max((header.next_offset for _, header in iter_headers(records)), default=0)
    return [
        AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
        for one in hosted.log.aborted_transactions(from_offset, end_offset)
    ]
