"""`ShareGroups`: the row of share groups in the table of types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from fencepost.machines.coordinator import TimerName
from fencepost.machines.group.admin import described
from fencepost.machines.group.caller import Caller
from fencepost.machines.group.group import Group
from fencepost.machines.group.shard import Decision, Shard
from fencepost.machines.group.share.group import (
    KEYS,
    InitializingLate,
    ShareGroup,
    apply,
)
from fencepost.machines.group.share.heartbeat import Heartbeats, remove_member
from fencepost.machines.group.share.offsets import ShareOffsets
from fencepost.machines.group.share.records import state_record
from fencepost.machines.group.share.timers import (
    INITIALIZING,
    SESSION,
    SHARE,
    initializing_timer,
    session_timer,
)
from fencepost.machines.image import ImageDelta
from fencepost.wire.api.share_group_describe import DescribedGroup
from fencepost.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid


class ShareGroups:
    """See the module docstring; implements `GroupType`."""

    name: ClassVar[str] = SHARE
    keys: ClassVar[tuple[type[Message], ...]] = KEYS
    classic_members: Final = None

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._heartbeats = Heartbeats(shard)
        self.offsets = ShareOffsets(shard)
        """The decisions about the state of partitions."""

    def apply(self, key: Message, value: Message | None) -> None:
        """A record of a group, of one of six kinds, in whatever order compaction leaves."""
        apply(self._shard, key, value)

    def loaded(self, decision: Decision, group: Group, wall_ms: int) -> None:
        """Every member has a session timeout from now on, and share coordinators their time.

        Topics may have been deleted while no broker coordinated the group.
        """
        assert isinstance(group, ShareGroup), group
        group_id = group.group_id
        session_timeout_ms = self._shard.share_settings(group_id).session_timeout_ms
        for member_id in group.members:
            decision.set_timer(session_timer(group_id, member_id), session_timeout_ms)
        if group.states.initializing:
            retry_ms = self._shard.config.share_initialize_retry_interval_ms
            decision.set_timer(initializing_timer(group_id), retry_ms)
        by_id = self._shard.image.topics_by_id
        self._forget(decision, group, {one for one in group.states.topic_ids if one not in by_id})

    def image_changed(self, decision: Decision, delta: ImageDelta) -> None:
        """What was known of deleted topics goes. Share coordinators see for themselves that their
        state is to be deleted; members are assigned with their next heartbeats."""
        gone = {topic.topic_id for topic in delta.deleted_topics}
        if gone:
            for group in self._shard.groups.values():
                if isinstance(group, ShareGroup):
                    self._forget(decision, group, gone & group.states.topic_ids)

    def _forget(self, decision: Decision, group: ShareGroup, gone: set[Uuid]) -> None:
        if gone:
            decision.is_atomic = False  # of many groups
            states = group.states.without_topics(gone)
            decision.records.append(state_record(group.group_id, states))

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, caller: Caller, wall_ms: int
    ) -> Decision:
        """ShareGroupHeartbeat v1; replies ShareGroupHeartbeatResponse."""
        return self._heartbeats.heartbeat(request, caller, wall_ms)

    def describe(self, group_ids: Sequence[str], token: Any) -> Decision:
        """ShareGroupDescribe v1; replies list[DescribedGroup]."""

        def missing(group_id: str, message: str) -> DescribedGroup:
            return DescribedGroup(
                group_id=group_id,
                error_code=int(ErrorCode.GROUP_ID_NOT_FOUND),
                error_message=message,
            )

        decision = Decision()
        answers = described(self._shard, group_ids, ShareGroup, SHARE, missing)
        self._name_topics(answers)
        decision.reply(token, answers)
        return decision

    def _name_topics(self, answers: Sequence[DescribedGroup]) -> None:
        """Give every topic its name; those deleted meanwhile have none, and are left out."""
        by_id = self._shard.image.topics_by_id
        for group in answers:
            for member in group.members:
                named = []
                for topic in member.assignment.topic_partitions:
                    found = by_id.get(topic.topic_id)
                    if found is not None:
                        topic.topic_name = found.name
                        named.append(topic)
                member.assignment.topic_partitions = named

    def decide_timer(self, name: TimerName, wall_ms: int) -> Decision:
        """A member's session is over, or share coordinators have not answered for long."""
        _, group_id, what, *rest = name
        decision = Decision()
        group = self._shard.group_of(group_id, ShareGroup)
        if group is None:
            return decision
        if what == INITIALIZING:
            decision.changes.append(InitializingLate(group_id))
            return decision
        assert what == SESSION, name
        (member_id,) = rest
        if member_id in group.members:
            remove_member(self._shard, decision, group, member_id)
            decision.notes.append(
                f"group {group_id}: member {member_id} is removed, its session is over"
            )
        return decision
