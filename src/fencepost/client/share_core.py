"""What a share consumer does, without I/O (KIP-932): membership, sessions, acknowledgements.

`ShareConsumer` and `AsyncShareConsumer` are its faces. What takes requests is a conversation
(`beating`, `polling`, `committing`, `leaving`); the rest is plain methods.

A share group hands out records, not partitions. Those that `polling` returns are locked for this
consumer until it acknowledges them: in implicit mode the next poll or commit accepts them all, in
explicit mode (`share.acknowledgement.mode`) the application acknowledges each. Acknowledgements
travel with the next fetch from the broker that handed the records out, or by themselves when
they are committed or renew a lock (`share_sessions`).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from typing import Any, ClassVar

from fencepost.client import asking
from fencepost.client.clock import now_ms
from fencepost.client.cluster_view import ClusterView
from fencepost.client.connection_core import ConnectionCore
from fencepost.client.conversation import Alone, Conversation
from fencepost.client.errors import ClientError, ConfigError
from fencepost.client.member import LEAVE_TIMEOUT_MS
from fencepost.client.metadata import TopicPartition
from fencepost.client.retry import Deadline
from fencepost.client.share_membership import LOWEST_VERSION, ShareMembership
from fencepost.client.share_records import AcknowledgeType, ShareRecord
from fencepost.client.share_sessions import CommitCallback, Results, ShareSessions
from fencepost.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from fencepost.wire.errors import is_retriable

log = logging.getLogger("fencepost.client")


class ShareConsumerCore:
    """See the module. One thread, or one event loop."""

    waits_apart: ClassVar[bool]
    """Whether the coordinator is asked over a connection that nothing else uses."""

    def __init__(self, view: ClusterView[Any]) -> None:
        config = view.config
        config.check()
        if config.group_id is None:
            raise ConfigError("group.id", None, "a member of a share group needs one")
        self.config = config
        self.group = config.group_id
        self._view = view
        member_id = str(uuid.uuid4())
        self._coordinator_purpose = f"coordinator {member_id}" if self.waits_apart else ""
        self._member = ShareMembership(self.group, member_id, config.retry_backoff_ms)
        self._sessions = ShareSessions(view, self.group, self._member)
        self._is_explicit = config.share_acknowledgement_mode == "explicit"

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long records are locked, as a broker said last."""
        return self._sessions.acquisition_lock_timeout_ms

    # -- what is read ----------------------------------------------------------------------------

    def subscription(self) -> frozenset[str]:
        """The topics subscribed to."""
        return frozenset(self._member.topics)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics from now on, and no others."""
        self._member.subscribe(tuple(sorted(set(topics))))

    def set_acknowledgement_commit_callback(self, callback: CommitCallback | None) -> None:
        """Have this called with the outcome of acknowledgements, a partition at a time, by `poll`,
        commits and `close`; see `CommitCallback`."""
        self._sessions.callback = callback

    def acknowledge(
        self, record: ShareRecord, kind: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Say what became of a record; see `acknowledge_offset`."""
        self.acknowledge_offset(record.topic, record.partition, record.offset, kind)

    def acknowledge_offset(
        self,
        topic: str,
        partition: int,
        offset: int,
        kind: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> None:
        """Say what became of a record, to be sent by the next poll or commit; until then it can be
        said otherwise. ClientError in implicit mode, and for a record that was not handed out to
        this consumer, or is settled."""
        where = TopicPartition(topic, partition)
        if not self._is_explicit:
            raise ClientError(
                "records are acknowledged implicitly; set share.acknowledgement.mode=explicit",
                topic=topic,
                partition=partition,
            )
        kind = AcknowledgeType(kind)
        for session in self._sessions:
            if session.say(where, offset, kind):
                return
        text = f"the record at offset {offset} is not this consumer's to acknowledge"
        raise ClientError(text, topic=topic, partition=partition)

    def _settle_delivered(self) -> None:
        """In implicit mode: everything handed out so far has been processed."""
        if not self._is_explicit:
            for session in self._sessions:
                for delivered in session.delivered.values():
                    delivered.say_of_unsaid(AcknowledgeType.ACCEPT)

    def _require_all_acknowledged(self) -> None:
        if not self._is_explicit:
            return
        for session in self._sessions:
            for where, delivered in session.delivered.items():
                if delivered.unsaid:
                    offset = next(iter(delivered.unsaid))
                    raise ClientError(
                        f"the record at offset {offset} has to be acknowledged before the next poll"
                        " (share.acknowledgement.mode=explicit)",
                        topic=where.topic,
                        partition=where.partition,
                    )

    # -- the group -------------------------------------------------------------------------------

    @property
    def heartbeat_wait_ms(self) -> float:
        """Milliseconds until a heartbeat is due."""
        return self._member.wait_ms(now_ms())

    def beating(self) -> Conversation[None]:
        """Send a heartbeat if it is time; the first one joins the group."""
        yield from Alone(self, self._beating())

    def _beating(self) -> Conversation[None]:
        member, sent = self._member, list[ShareGroupHeartbeatRequest]()
        if member.wait_ms(now_ms()) > 0 or not (member.topics or member.is_member):
            return

        def heartbeat(connection: ConnectionCore) -> ShareGroupHeartbeatRequest:
            connection.version_for(ShareGroupHeartbeatRequest, lowest=LOWEST_VERSION)
            sent.append(member.heartbeat())  # in full after one that was not answered
            return sent[-1]

        response = yield from asking.request_coordinator(
            self._view,
            self.group,
            heartbeat,
            lambda answer: answer.error_code if is_retriable(answer.error_code) else 0,
            what=f"the heartbeat in share group {self.group}",
            deadline=Deadline(self.config.api_timeout_ms),
            purpose=self._coordinator_purpose,
        )
        member.on_response(sent[-1], response, now_ms())

    def leaving(self) -> Conversation[None]:
        """Leave the group; what is locked for this consumer stays so until its sessions end."""
        yield from Alone(self, self._leaving())

    def _leaving(self) -> Conversation[None]:
        member = self._member
        try:
            if member.is_member:
                yield from asking.request_coordinator(
                    self._view,
                    self.group,
                    member.leave_request(),
                    lambda answer: answer.error_code,
                    what=f"leaving share group {self.group}",
                    deadline=Deadline(LEAVE_TIMEOUT_MS),
                    timeout_ms=LEAVE_TIMEOUT_MS,
                )
        except ClientError as error:  # the session of the member ends by itself
            log.warning("leaving share group %s: %s", self.group, error)
        member.forget()

    # -- records ---------------------------------------------------------------------------------

    def polling(self, max_wait_ms: float) -> Conversation[list[ShareRecord]]:
        """Records, if any can be acquired in time; sends acknowledgements before.

        BrokerError for what trying again cannot help, ClientError in explicit mode while a record
        is not acknowledged.
        """
        self._require_all_acknowledged()
        self._settle_delivered()
        return (yield from self._sessions.polling(max_wait_ms))

    def committing(self) -> Conversation[Results]:
        """Send all acknowledgements, in implicit mode of everything that was handed out."""
        self._settle_delivered()
        return (yield from self.sending())

    def sending(self) -> Conversation[Results]:
        """Send all acknowledgements, and wait for the outcome also of those on their way."""
        return self._sessions.sending()

    def closing(self, *, accepts: bool) -> Conversation[None]:
        """Send the acknowledgements, in implicit mode if `accepts` of everything handed out; have
        brokers release the rest; leave the group."""
        if accepts:
            self._settle_delivered()
        yield from self._sessions.closing()
        yield from self.leaving()
