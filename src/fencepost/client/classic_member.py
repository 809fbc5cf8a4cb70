"""A consumer as a member of a classic group: how `membership` is carried out.

Rebalances are eager: whatever was assigned is given up before the member joins again.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from fencepost.client import asking
from fencepost.client.clock import now_ms
from fencepost.client.conversation import Conversation, Pause
from fencepost.client.errors import ConfigError
from fencepost.client.member import LEAVE_TIMEOUT_MS, MachineMember, Reader
from fencepost.client.membership import Membership, MembershipConfig, State
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata
from fencepost.client.retry import Deadline
from fencepost.wire.api.leave_group import LeaveGroupRequest
from fencepost.wire.errors import is_retriable

log = logging.getLogger("fencepost.client")

JOIN_MARGIN_MS: Final = 5_000
"""Beyond the rebalance timeout, for which the coordinator may hold a JoinGroup."""


class ClassicMember(MachineMember[Membership]):
    """See the module, and `member.Member`."""

    beats_apart = False

    def __init__(self, reader: Reader, group: str, topics: tuple[str, ...]) -> None:
        config = reader.config
        self.metadata: ConsumerGroupMetadata | None = None
        membership_config = MembershipConfig(
            group,
            topics,
            config.session_timeout_ms,
            config.max_poll_interval_ms,
            config.heartbeat_interval_ms,
            config.retry_backoff_ms,
            config.group_instance_id,
            config.assignors,
        )
        super().__init__(reader, group, Membership(membership_config))

    @property
    def has_to_join(self) -> bool:
        return self._machine.state is not State.STABLE

    @property
    def beats(self) -> bool:
        return self._machine.state is State.STABLE

    def subscribe(self, topics: tuple[str, ...], pattern: str | None) -> None:
        require_no_pattern(pattern)
        self._machine.subscribe(topics, now_ms())

    def beating(self) -> Conversation[None]:
        """Send a heartbeat if it is time, and look whether topics have got partitions."""
        machine = self._machine
        if machine.state is not State.STABLE:
            return
        if machine.is_leader and self._reader.view.is_stale(machine.subscribed_topics):
            machine.on_partition_counts((yield from self._partition_counts()), now_ms())
        if machine.state is State.STABLE:
            yield from self._send_due()

    def rebalancing(self) -> Conversation[None]:
        machine, reader = self._machine, self._reader
        log.info("group %s: joining, because %s", self._group, machine.reason)
        yield from reader.giving_up(reader.held(), is_lost=not machine.may_commit)
        while machine.state is not State.STABLE:
            if machine.state is State.ASSIGNING:
                machine.assign((yield from self._partition_counts()))
                continue
            wait_ms = self.wait_ms
            if wait_ms > 0:
                yield from Pause(wait_ms)
            yield from self._send_due()
        self.metadata = ConsumerGroupMetadata(
            self._group,
            machine.generation_id,
            machine.member_id,
            machine.config.group_instance_id,
        )
        yield from reader.taking_on(machine.assignment)
        yield from reader.placing()

    def recovering(self, code: int) -> Conversation[bool]:
        self._machine.on_commit_error(code, now_ms())
        return False
        yield  # a conversation without a step

    def _send_due(self) -> Conversation[None]:
        machine, config = self._machine, self._reader.config
        request = machine.next_request(now_ms())
        if request is None:
            return
        joins = machine.state is not State.STABLE  # the coordinator may hold the answer
        held_ms = config.max_poll_interval_ms + JOIN_MARGIN_MS if joins else 0
        response = yield from asking.request_coordinator(
            self._reader.view,
            self._group,
            request,
            lambda answer: answer.error_code if is_retriable(answer.error_code) else 0,
            what=f"{type(request).__name__.removesuffix('Request')} in group {self._group}",
            deadline=Deadline(max(config.api_timeout_ms, held_ms)),
            timeout_ms=max(config.request_timeout_ms, held_ms),
            purpose=self._reader.coordinator_purpose,
        )
        machine.on_response(response, now_ms())

    def _partition_counts(self) -> Conversation[dict[str, int]]:
        """How many partitions the subscribed topics have; none for one that does not exist."""
        names = sorted(self._machine.subscribed_topics)
        infos = {info.name: info for info in (yield from asking.describe(self._reader.view, names))}
        return {name: len(infos[name].partitions) for name in names if name in infos}

    def _asking_to_leave(self) -> Conversation[Any]:
        return asking.request_coordinator(
            self._reader.view,
            self._group,
            lambda to: self._machine.leave_request(to.version_for(LeaveGroupRequest)),
            what=f"leaving group {self._group}",
            deadline=Deadline(LEAVE_TIMEOUT_MS),
            timeout_ms=LEAVE_TIMEOUT_MS,
        )


def require_no_pattern(pattern: str | None) -> None:
    """Raise ConfigError for a pattern, which only coordinators of consumer groups resolve."""
    if pattern is not None:
        raise ConfigError("group.protocol", "classic", "a pattern needs group.protocol=consumer")
