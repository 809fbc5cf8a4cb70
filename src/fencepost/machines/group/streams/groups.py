"""`StreamsGroups`: the row of streams groups in the table of types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from fencepost.machines.coordinator import TimerName
from fencepost.machines.group.admin import described
from fencepost.machines.group.caller import Caller
from fencepost.machines.group.group import Group
from fencepost.machines.group.next_epoch import next_epoch
from fencepost.machines.group.refused import RefusedError
from fencepost.machines.group.shard import Decision, Shard
from fencepost.machines.group.streams import records, timers
from fencepost.machines.group.streams.answers import HeartbeatReply
from fencepost.machines.group.streams.group import StreamsGroup
from fencepost.machines.group.streams.heartbeat import Heartbeat, refuse_unknown, static_member
from fencepost.machines.group.streams.member import LEFT_FOR_NOW, StreamsMember
from fencepost.machines.group.streams.reconciliation import MemberState, UnknownStateError
from fencepost.machines.group.streams.refusals import (
    LEAVES,
    LEAVES_FOR_NOW,
    refuse,
    refused,
)
from fencepost.machines.group.streams.soft_changes import SoftChange
from fencepost.machines.group.streams.target import Targets
from fencepost.machines.group.streams.tasks import NO_HELD_TASKS
from fencepost.machines.group.streams.topology import Topology
from fencepost.machines.image import ImageDelta
from fencepost.wire.api.streams_group_describe import DescribedGroup
from fencepost.wire.api.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.group_streams import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

UNKNOWN_STATE: Final = (
    "The streams group member is in a unknown state. The member must abandon all its tasks and"
    " rejoin."
)


class StreamsGroups:
    """See the module docstring; implements `GroupType`."""

    name: ClassVar[str] = timers.STREAMS
    keys: ClassVar[tuple[type[Message], ...]] = records.KEYS
    classic_members: Final = None

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    # State

    def apply(self, key: Message, value: Message | None) -> None:
        """One of the group's records, or its tombstone."""
        shard = self._shard
        group = shard.group_to_change(key, value, StreamsGroup)
        if group is None:
            return
        before_bytes = group.counted_bytes
        self._apply_to(group, key, value)
        shard.count_bytes(group.counted_bytes - before_bytes)
        if not group.has_records:
            shard.delete(group.group_id)

    def _apply_to(self, group: StreamsGroup, key: Message, value: Message | None) -> None:
        undo_log = self._shard.undo_log
        if isinstance(key, StreamsGroupMetadataKey):
            assert value is None or isinstance(value, StreamsGroupMetadataValue)
            undo_log.set_attribute(group, "value", value)
        elif isinstance(key, StreamsGroupTargetAssignmentMetadataKey):
            assert value is None or isinstance(value, StreamsGroupTargetAssignmentMetadataValue)
            undo_log.set_attribute(group, "target_value", value)
        elif isinstance(key, StreamsGroupTopologyKey):
            assert value is None or isinstance(value, StreamsGroupTopologyValue)
            group.set_topology(undo_log, None if value is None else Topology(value))
        elif isinstance(key, StreamsGroupMemberMetadataKey):
            assert value is None or isinstance(value, StreamsGroupMemberMetadataValue)
            said = None if value is None else records.metadata_of(value)
            group.set_member(undo_log, key.member_id, said)
        elif isinstance(key, StreamsGroupTargetAssignmentMemberKey):
            assert value is None or isinstance(value, StreamsGroupTargetAssignmentMemberValue)
            target = None if value is None else records.target_of(value)
            group.set_target(undo_log, key.member_id, target)
        else:
            assert isinstance(key, StreamsGroupCurrentMemberAssignmentKey), key
            assert value is None or isinstance(value, StreamsGroupCurrentMemberAssignmentValue)
            current = None if value is None else records.current_of(value)
            group.set_current(undo_log, key.member_id, current)

    def loaded(self, decision: Decision, group: Group, wall_ms: int) -> None:
        """Members have a session timeout from now to send a heartbeat, and those that have to give
        up tasks their rebalance timeout."""
        assert isinstance(group, StreamsGroup), group
        timeout_ms = self._shard.streams_settings(group.group_id).session_timeout_ms
        for member_id in group.metadata:
            decision.set_timer(timers.session_timer(group.group_id, member_id), timeout_ms)
            member = group.member(member_id)
            if member is not None and _is_revoking(member):
                timer = timers.rebalance_timer(group.group_id, member_id)
                decision.set_timer(timer, max(0, member.metadata.rebalance_timeout_ms))

    def image_changed(self, decision: Decision, delta: ImageDelta) -> None:
        """The next heartbeat of a group looks at the topics again, if one of them has changed."""
        topics = (*delta.created_topics, *delta.deleted_topics, *delta.resized_topics)
        changed = {topic.name for topic in topics}
        changed.update(one.topic for one in delta.partitions)
        if not changed:
            return
        for group in self._shard.groups.values():
            if (
                isinstance(group, StreamsGroup)
                and group.topology is not None
                and not group.soft.is_refresh_due
                and not changed.isdisjoint(group.topology.required_topics)
            ):
                decision.changes.append(SoftChange(group.group_id, is_refresh_due=True))

    # Decisions

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, caller: Caller, wall_ms: int
    ) -> Decision:
        """StreamsGroupHeartbeat v0-1, for which `refusals.check_request` has found nothing; replies
        HeartbeatReply."""
        decision = Decision()
        try:
            if request.member_epoch in (LEAVES, LEAVES_FOR_NOW):
                self._leave(decision, request)
            else:
                return Heartbeat(self._shard, request, caller, wall_ms).decide()
        except RefusedError as error:
            response = refused(error)
        except UnknownStateError:
            response = refused(RefusedError(ErrorCode.FENCED_MEMBER_EPOCH, UNKNOWN_STATE))
        else:
            response = StreamsGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=request.member_epoch
            )
        decision.reply(caller.token, HeartbeatReply(response))
        return decision

    def _leave(self, decision: Decision, request: StreamsGroupHeartbeatRequest) -> None:
        """The member leaves, a static one perhaps for a while. RefusedError.

        Kafka 4.4.0 takes the wish to shut the application down before it looks whether there is
        such a member; here a heartbeat that is refused changes nothing.
        """
        group_id, member_id, instance_id = request.group_id, request.member_id, request.instance_id
        group = self._shard.group_of(group_id, StreamsGroup)
        if group is None:
            known = group_id in self._shard.groups
            what = "is not a streams group" if known else "not found"
            refuse(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
        if instance_id is not None:
            member = static_member(group, instance_id, member_id)
        elif member_id not in group.metadata:
            refuse_unknown(group, member_id)
        if request.shutdown_application and group.soft.shutdown_member_id is None:
            decision.changes.append(SoftChange(group_id, shutdown_member_id=member_id))
        if instance_id is not None and request.member_epoch == LEAVES_FOR_NOW:
            leave_for_now(decision, group, member)
        else:
            remove_member(decision, group, member_id)

    def describe(self, group_ids: Sequence[str], token: Any) -> Decision:
        """StreamsGroupDescribe v0-1; replies list[DescribedGroup]."""

        def missing(group_id: str, message: str) -> DescribedGroup:
            return DescribedGroup(
                group_id=group_id,
                error_code=int(ErrorCode.GROUP_ID_NOT_FOUND),
                error_message=message,
            )

        decision = Decision()
        answers = described(self._shard, group_ids, StreamsGroup, timers.STREAMS, missing)
        decision.reply(token, answers)
        return decision

    def decide_timer(self, name: TimerName, wall_ms: int) -> Decision:
        """A member's session or rebalance timeout is over, or the initial delay of a group."""
        decision = Decision()
        _, group_id, what, *rest = name
        group = self._shard.group_of(group_id, StreamsGroup)
        if group is None:
            return decision
        if what == timers.INITIAL_DELAY:
            over = SoftChange(group_id, is_delayed=False)
            decision.changes.append(over)
            decision.on_refused = lambda error: Decision(changes=[over])
            Targets(self._shard).compute(decision, group, wall_ms)
            return decision
        (member_id,) = rest
        member = group.member(member_id)
        if member is None:
            return decision
        if what == timers.SESSION:
            decision.notes.append(f"group {group_id}: the session of {member_id} expired")
            remove_member(decision, group, member_id)
        elif _is_revoking(member):
            assert what == timers.REBALANCE, name
            decision.notes.append(
                f"group {group_id}: {member_id} did not give up its tasks in time"
            )
            remove_member(decision, group, member_id)
        return decision


def _is_revoking(member: StreamsMember) -> bool:
    """Whether it has been told to give up tasks. One that left for a while has a session alone."""
    current = member.current
    return current.state is MemberState.UNREVOKED_TASKS and current.member_epoch != LEFT_FOR_NOW


def remove_member(decision: Decision, group: StreamsGroup, member_id: str) -> None:
    """The member is gone, and the group needs another target; the last one that goes leaves the
    target's epoch equal to the group's (KAFKA-20442)."""
    group_id, epoch = group.group_id, next_epoch(group.epoch)
    decision.records += records.member_tombstones(group_id, member_id)
    decision.records.append(
        records.group_record(
            group_id,
            epoch,
            group.metadata_hash,
            group.validated_topology_epoch,
            group.assignment_configs,
            group.descriptions,
        )
    )
    if group.member_count == 1:
        decision.records.append(records.target_epoch_record(group_id, epoch, 0))
    for timer in (timers.session_timer, timers.rebalance_timer):
        decision.set_timer(timer(group_id, member_id), None)


def leave_for_now(decision: Decision, group: StreamsGroup, member: StreamsMember) -> None:
    """A static member leaves and will be back before its session ends: its tasks stay its own."""
    current, assigned = member.current, member.current.assigned
    left = current._replace(
        member_epoch=LEFT_FOR_NOW,
        assigned=assigned._replace(active=dict.fromkeys(assigned.active, 0)),
        pending=NO_HELD_TASKS,
    )
    decision.records.append(records.current_record(group.group_id, member.member_id, left))
    decision.set_timer(timers.rebalance_timer(group.group_id, member.member_id), None)
