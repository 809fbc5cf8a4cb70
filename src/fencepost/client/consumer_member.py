"""A consumer as a member of a consumer group (KIP-848): how `consumer_membership` is carried out.

Rebalances are incremental: partitions that the member keeps are read on, from where it is.
"""

from __future__ import annotations

import logging
from typing import Any

from fencepost.client import asking
from fencepost.client.clock import now_ms
from fencepost.client.cluster_view import ClusterView
from fencepost.client.connection_core import ConnectionCore
from fencepost.client.consumer_membership import (
    LOWEST_VERSION,
    ConsumerMembership,
    ConsumerMembershipConfig,
    IdPartition,
    State,
)
from fencepost.client.conversation import Alone, Conversation, Pause
from fencepost.client.member import LEAVE_TIMEOUT_MS, MachineMember, Reader
from fencepost.client.metadata import TopicPartition
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata
from fencepost.client.retry import Deadline
from fencepost.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from fencepost.wire.errors import ErrorCode, is_retriable

log = logging.getLogger("fencepost.client")


class ConsumerMember(MachineMember[ConsumerMembership]):
    """See the module, and `member.Member`."""

    beats_apart = True

    def __init__(
        self,
        reader: Reader,
        group: str,
        member_id: str,
        topics: tuple[str, ...],
        pattern: str | None = None,
    ) -> None:
        config = reader.config
        membership_config = ConsumerMembershipConfig(
            group,
            topics,
            pattern,
            config.max_poll_interval_ms,
            config.group_instance_id,
            config.group_remote_assignor,
            config.retry_backoff_ms,
        )
        super().__init__(reader, group, ConsumerMembership(membership_config, member_id))

    @property
    def metadata(self) -> ConsumerGroupMetadata | None:
        machine = self._machine
        if machine.commit_epoch < 0:
            return None
        instance_id = machine.config.group_instance_id
        return ConsumerGroupMetadata(
            self._group, machine.commit_epoch, machine.member_id, instance_id
        )

    @property
    def has_to_join(self) -> bool:
        return self._machine.state is not State.STABLE

    @property
    def beats(self) -> bool:
        return self._machine.state is not State.UNJOINED

    def subscribe(self, topics: tuple[str, ...], pattern: str | None) -> None:
        self._machine.subscribe(topics, pattern)

    def beating(self) -> Conversation[None]:
        if self.beats:
            yield from Alone(self, self._sending(is_due=False))

    def rebalancing(self) -> Conversation[None]:
        machine, reader = self._machine, self._reader
        if machine.state is State.UNJOINED:
            yield from reader.giving_up(reader.held(), is_lost=True)
            wait_ms = self.wait_ms
            if wait_ms > 0:
                yield from Pause(wait_ms)
            log.info("group %s: joining as member %s", self._group, machine.member_id)
            yield from Alone(self, self._sending(is_due=False))
        if machine.state is State.RECONCILING:
            yield from self._reconciling()

    def _reconciling(self) -> Conversation[None]:
        """Give up what the coordinator wants back, acknowledge, and take on what is new.

        The application's listener may take its time, in which heartbeats go on and may bring
        another assignment: that one is reconciled next. One that found the member put out ends it.
        """
        machine, reader = self._machine, self._reader
        target = machine.target
        named = yield from _naming(reader.view, target)
        revoked = machine.revoked(frozenset(named))
        if revoked:
            log.info("group %s: giving up %s", self._group, ", ".join(map(str, revoked)))
            yield from reader.giving_up(revoked, is_lost=False)
        if machine.state is not State.RECONCILING:
            return
        added = machine.added(named)
        machine.acknowledge(named)
        if revoked or added:
            yield from reader.taking_on(added)
        yield from Alone(self, self._sending(is_due=False))
        yield from reader.placing()

    def recovering(self, code: int) -> Conversation[bool]:
        """A heartbeat brings the epoch that STALE_MEMBER_EPOCH asks for, or that the member was
        put out, as UNKNOWN_MEMBER_ID says."""
        epoch = self._machine.commit_epoch
        if code == ErrorCode.STALE_MEMBER_EPOCH and self.beats:
            yield from Alone(self, self._sending(is_due=True))
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self._machine.forget()
        return self.beats and self._machine.commit_epoch != epoch

    def _sending(self, *, is_due: bool) -> Conversation[None]:
        """Send a heartbeat if it is time, or if `is_due` in any case."""
        machine, config = self._machine, self._reader.config
        if not is_due and machine.wait_ms(now_ms()) > 0:
            return
        sent: list[ConsumerGroupHeartbeatRequest] = []

        def heartbeat(connection: ConnectionCore) -> ConsumerGroupHeartbeatRequest:
            connection.version_for(ConsumerGroupHeartbeatRequest, lowest=LOWEST_VERSION)
            sent.append(machine.heartbeat())  # in full after one that was not answered
            return sent[-1]

        response = yield from asking.request_coordinator(
            self._reader.view,
            self._group,
            heartbeat,
            lambda answer: answer.error_code if is_retriable(answer.error_code) else 0,
            what=f"the heartbeat in group {self._group}",
            deadline=Deadline(config.api_timeout_ms),
            purpose=self._reader.coordinator_purpose,
        )
        machine.on_response(sent[-1], response, now_ms())

    def leaving(self) -> Conversation[None]:
        yield from Alone(self, super().leaving())

    def _asking_to_leave(self) -> Conversation[Any]:
        return asking.request_coordinator(
            self._reader.view,
            self._group,
            self._machine.leave_request(),
            lambda answer: answer.error_code,
            what=f"leaving group {self._group}",
            deadline=Deadline(LEAVE_TIMEOUT_MS),
            timeout_ms=LEAVE_TIMEOUT_MS,
        )


def _naming(
    view: ClusterView[Any], partitions: frozenset[IdPartition]
) -> Conversation[dict[IdPartition, TopicPartition]]:
    """These by name; without those of topics that no broker knows, as after a deletion."""
    names = yield from asking.naming_topics(view, {one.topic_id for one in partitions})
    return {
        one: TopicPartition(names[one.topic_id], one.partition)
        for one in partitions
        if one.topic_id in names
    }
