"""`ConsumerGroups`: the row of consumer groups in the table of types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from fencepost.machines.coordinator import TimerName
from fencepost.machines.group.admin import described
from fencepost.machines.group.caller import Caller
from fencepost.machines.group.consumer.apply import KEYS, apply
from fencepost.machines.group.consumer.classic_members import ClassicMembersOfConsumerGroups
from fencepost.machines.group.consumer.describe import name_topics
from fencepost.machines.group.consumer.group import ConsumerGroup, Note
from fencepost.machines.group.consumer.heartbeat import Heartbeats
from fencepost.machines.group.consumer.leaving import remove_members
from fencepost.machines.group.consumer.member import MemberState
from fencepost.machines.group.consumer.regex_refresh import MayDescribe
from fencepost.machines.group.consumer.target import effective_assignor
from fencepost.machines.group.consumer.timers import (
    CONSUMER,
    JOIN,
    REBALANCE,
    SESSION,
    SYNC,
    rebalance_timer,
    session_timer,
)
from fencepost.machines.group.group import Group
from fencepost.machines.group.shard import Decision, Shard
from fencepost.machines.image import ImageDelta
from fencepost.machines.image.delta import PartitionDelta
from fencepost.wire.api.consumer_group_describe import DescribedGroup
from fencepost.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message


class ConsumerGroups:
    """See the module docstring; implements `GroupType`."""

    name: ClassVar[str] = CONSUMER
    keys: ClassVar[tuple[type[Message], ...]] = KEYS

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._heartbeats = Heartbeats(shard)
        self.classic_members: Final = ClassicMembersOfConsumerGroups(shard, self._heartbeats)

    def apply(self, key: Message, value: Message | None) -> None:
        """A record of a group, of one of seven kinds, in whatever order compaction leaves."""
        apply(self._shard, key, value)

    def loaded(self, decision: Decision, group: Group, wall_ms: int) -> None:
        """Every member has a session timeout from now on, and its time to give up partitions.

        Classic members that have to join again are told so with their next heartbeat.
        """
        assert isinstance(group, ConsumerGroup), group
        group_id = group.group_id
        session_timeout_ms = self._shard.consumer_settings(group_id).session_timeout_ms
        for member_id, said in group.members.items():
            if said.classic is not None:
                timeout_ms = said.classic.session_timeout_ms
                decision.set_timer(session_timer(group_id, member_id), timeout_ms)
                continue
            decision.set_timer(session_timer(group_id, member_id), session_timeout_ms)
            if group.progress_of(member_id).state is MemberState.UNREVOKED_PARTITIONS:
                timer = rebalance_timer(group_id, member_id)
                decision.set_timer(timer, max(said.rebalance_timeout_ms, 0))
        if group.regex_users:  # topics may have been created since the last search
            offset = self._shard.image.offset
            decision.changes.append(Note(group_id, "newest_topics_at", offset))

    def image_changed(self, decision: Decision, delta: ImageDelta) -> None:
        """With the next heartbeat of a group that reads one of the topics, they are looked at."""
        created = {topic.name for topic in delta.created_topics}
        changed = created.union(
            (topic.name for topic in delta.deleted_topics),
            (topic.name for topic in delta.resized_topics),
            (one.topic for one in delta.partitions if _has_moved(one)),
        )
        if not changed:
            return
        for group in self._shard.groups.values():
            if not isinstance(group, ConsumerGroup):
                continue
            if created and group.regex_users:
                note = Note(group.group_id, "newest_topics_at", delta.new.offset)
                decision.changes.append(note)
            if not group.is_check_due and group.reads_any(changed):
                decision.changes.append(Note(group.group_id, "is_check_due", True))

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        may_describe: MayDescribe,
        wall_ms: int,
    ) -> Decision:
        """ConsumerGroupHeartbeat v0-1; replies ConsumerGroupHeartbeatResponse."""
        return self._heartbeats.heartbeat(request, caller, may_describe, wall_ms)

    def describe(self, group_ids: Sequence[str], token: Any) -> Decision:
        """ConsumerGroupDescribe v0-1; replies list[DescribedGroup]."""

        def missing(group_id: str, message: str) -> DescribedGroup:
            return DescribedGroup(
                group_id=group_id,
                error_code=int(ErrorCode.GROUP_ID_NOT_FOUND),
                error_message=message,
            )

        shard, decision = self._shard, Decision()
        answers = described(shard, group_ids, ConsumerGroup, CONSUMER, missing)
        default = shard.config.consumer_assignors[0]
        for answer in answers:
            group = shard.group_of(answer.group_id, ConsumerGroup)
            if group is not None:
                answer.assignor_name = effective_assignor(group, default)
        name_topics(answers, shard.image)
        decision.reply(token, answers)
        return decision

    def decide_timer(self, name: TimerName, wall_ms: int) -> Decision:
        """A member's session, or its time for what it was told to do, is over: it is removed."""
        _, group_id, what, member_id = name
        decision = Decision()
        group = self._shard.group_of(group_id, ConsumerGroup)
        if group is None or member_id not in group.members:
            return decision
        is_classic = group.members[member_id].classic is not None
        if what == REBALANCE:
            state = group.progress_of(member_id).state
            if is_classic or state is not MemberState.UNREVOKED_PARTITIONS:
                return decision
        elif what in (JOIN, SYNC) and not is_classic:
            return decision
        reason = _REASONS[what]
        remove_members(self._shard, decision, group, [member_id], wall_ms)
        decision.notes.append(f"group {group_id}: member {member_id} is removed, {reason}")
        return decision


_REASONS: Final = {
    SESSION: "its session is over",
    REBALANCE: "it has not given up its partitions in time",
    JOIN: "it has not joined again in time",
    SYNC: "it has not synced in time",
}
"""Why a timer removes a member."""


def _has_moved(change: PartitionDelta) -> bool:
    """Whether its replicas are on other brokers: their racks are part of the metadata hash."""
    old, new = change.old, change.new
    return old is not None and new is not None and old.replicas != new.replicas
