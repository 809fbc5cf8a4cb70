"""`StreamsGroup`: one streams group of a shard, changed in place by applied records alone.

Records may come in any order that compaction leaves, so each kind has a place of its own; what is
derived from several (holders of tasks, static members) is kept with every change. `soft` and
`offsets` are in memory alone, and gone when the group is loaded on another broker, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from fencepost.machines.coordinator import TimerName, UndoLog, WorkName
from fencepost.machines.group.group import Committer
from fencepost.machines.group.memory import group_bytes
from fencepost.machines.group.offsets import CommittedOffset
from fencepost.machines.group.rules import GroupRules
from fencepost.machines.group.shard import Decision
from fencepost.machines.group.streams import timers
from fencepost.machines.group.streams.configuring import ConfiguredTopology
from fencepost.machines.group.streams.describe import describe_member, describe_topology
from fencepost.machines.group.streams.member import (
    NEW_MEMBER,
    NO_REPORTED_OFFSETS,
    TASK_BYTES,
    MemberMetadata,
    ReportedOffsets,
    StreamsMember,
)
from fencepost.machines.group.streams.reconciliation import NOTHING_ASSIGNED, CurrentAssignment
from fencepost.machines.group.streams.sticky_assignor import STICKY
from fencepost.machines.group.streams.tasks import NO_TASKS, HeldTasks, TaskId, Tasks
from fencepost.machines.group.streams.topology import Topology
from fencepost.wire.api.streams_group_describe import DescribedGroup
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.group_streams import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
)

INITIAL_EPOCH: Final = 1
"""Of a group and of its target before there is a record of them; a first member makes it 2."""
NO_EPOCH: Final = -1
COMMITS_FROM: Final = 9
"""Version of OffsetCommit with member epochs (KIP-848)."""


class StreamsState(Enum):
    """The states of a streams group."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """Topics that its topology needs are missing or do not fit."""
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class SoftState(Struct, frozen=True):
    """What a coordinator knows of a group besides its records."""

    configured: ConfiguredTopology | None = None
    is_refresh_due: bool = True
    """Whether the topics may have changed since the metadata hash was computed."""
    shutdown_member_id: str | None = None
    """The member that asked for the shutdown of the application; until the group is empty."""
    endpoint_epoch: int = 0
    """Counts changes of where data can be queried."""
    is_delayed: bool = False
    """Whether the first assignment waits for the initial rebalance delay."""
    computing_epoch: int | None = None
    """The group epoch for which a target is being computed elsewhere."""


FRESH: Final = SoftState()

_Holders = dict[TaskId, tuple[str, ...]]


class StreamsGroup:
    """See the module; implements `Group`, and `Holders` for reconciliation."""

    group_type: Final = timers.STREAMS
    protocol_type: Final = timers.STREAMS
    can_become_classic: Final = True

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.value: StreamsGroupMetadataValue | None = None
        """Record 17."""
        self.target_value: StreamsGroupTargetAssignmentMetadataValue | None = None
        """Record 20."""
        self.topology: Topology | None = None
        self.metadata: dict[str, MemberMetadata] = {}
        """What each member said; its keys are the members."""
        self.current: dict[str, CurrentAssignment] = {}
        self.targets: dict[str, Tasks] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.active_holders: _Holders = {}
        self.standby_holders: _Holders = {}
        self.warmup_holders: _Holders = {}
        self.soft = FRESH
        self.offsets: dict[str, ReportedOffsets] = {}
        self.counted_bytes = group_bytes(group_id)

    # What it is

    @property
    def epoch(self) -> int:
        """The group epoch."""
        return INITIAL_EPOCH if self.value is None else self.value.epoch

    @property
    def target_epoch(self) -> int:
        """The group epoch that the target assignment is for."""
        return INITIAL_EPOCH if self.target_value is None else self.target_value.assignment_epoch

    @property
    def target_timestamp_ms(self) -> int:
        """When the target was computed; 0 if the next one need not wait."""
        return 0 if self.target_value is None else self.target_value.assignment_timestamp

    @property
    def metadata_hash(self) -> int:
        """Of the topics that the topology needs, when the epoch was last raised."""
        return 0 if self.value is None else self.value.metadata_hash

    @property
    def validated_topology_epoch(self) -> int:
        """The epoch of the topology if its topics were all right; -1 if not."""
        return NO_EPOCH if self.value is None else self.value.validated_topology_epoch

    @property
    def assignment_configs(self) -> dict[str, str]:
        """The configs that the assignor was given when the epoch was last raised."""
        listed = None if self.value is None else self.value.last_assignment_configs
        return {one.key: one.value for one in listed or ()}

    @property
    def descriptions(self) -> tuple[int, int]:
        """What record 17 says of descriptions of the topology (KIP-1331): kept as it is."""
        if self.value is None:
            return NO_EPOCH, NO_EPOCH
        value = self.value
        return value.stored_description_topology_epoch, value.failed_description_topology_epoch

    @property
    def state(self) -> StreamsState:
        """Its state."""
        if not self.metadata:
            return StreamsState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsState.NOT_READY
        target_epoch = self.target_epoch
        if self.epoch > target_epoch:
            return StreamsState.ASSIGNING
        nothing = NOTHING_ASSIGNED
        if all(
            self.current.get(one, nothing).is_reconciled_to(target_epoch) for one in self.metadata
        ):
            return StreamsState.STABLE
        return StreamsState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.metadata

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.metadata)

    @property
    def has_records(self) -> bool:
        """Whether anything of it is stored."""
        return bool(
            self.value is not None
            or self.target_value is not None
            or self.topology is not None
            or self.metadata
            or self.current
            or self.targets
        )

    @property
    def is_forgettable(self) -> bool:
        """Whether nothing is known of it."""
        return not self.has_records and self.soft == FRESH

    def member(self, member_id: str) -> StreamsMember | None:
        """The member of that id."""
        metadata = self.metadata.get(member_id)
        if metadata is None:
            return None
        return StreamsMember(member_id, metadata, self.current.get(member_id, NOTHING_ASSIGNED))

    # Changes, by applied records and decisions alone

    def set_member(self, undo_log: UndoLog, member_id: str, said: MemberMetadata | None) -> None:
        """Record 19; None: the member is gone."""
        before = self.metadata.get(member_id)
        current = self.current.get(member_id, NOTHING_ASSIGNED)
        self._index(undo_log, before, current, removing=True)
        if before is not None:
            self._count(undo_log, -before.counted_bytes)
            instance_id = before.instance_id
            if instance_id is not None and self.static_members.get(instance_id) == member_id:
                undo_log.pop(self.static_members, instance_id)
        if said is None:
            undo_log.pop(self.metadata, member_id)
            reported = undo_log.pop(self.offsets, member_id) or NO_REPORTED_OFFSETS
            self._count(undo_log, -reported.counted_bytes)
            if not self.metadata and self.soft.shutdown_member_id is not None:
                self.set_soft(undo_log, shutdown_member_id=None)
            return
        undo_log.put(self.metadata, member_id, said)
        self._count(undo_log, said.counted_bytes)
        self._index(undo_log, said, current)
        if said.instance_id is not None:
            undo_log.put(self.static_members, said.instance_id, member_id)

    def set_current(
        self, undo_log: UndoLog, member_id: str, current: CurrentAssignment | None
    ) -> None:
        """Record 22; None: the member holds nothing."""
        metadata = self.metadata.get(member_id)
        before = self.current.get(member_id, NOTHING_ASSIGNED)
        self._index(undo_log, metadata, before, removing=True)
        if current is None:
            undo_log.pop(self.current, member_id)
        else:
            undo_log.put(self.current, member_id, current)
        after = current or NOTHING_ASSIGNED
        self._index(undo_log, metadata, after)
        self._count(undo_log, (_held_count(after) - _held_count(before)) * TASK_BYTES)

    def set_target(self, undo_log: UndoLog, member_id: str, target: Tasks | None) -> None:
        """Record 21; None: the member is to have nothing."""
        before = self.targets.get(member_id, NO_TASKS)
        if target is None:
            undo_log.pop(self.targets, member_id)
        else:
            undo_log.put(self.targets, member_id, target)
        self._count(undo_log, ((target or NO_TASKS).size - before.size) * TASK_BYTES)

    def set_topology(self, undo_log: UndoLog, topology: Topology | None) -> None:
        """Record 23."""
        before = self.topology
        undo_log.set_attribute(self, "topology", topology)
        more = 0 if topology is None else topology.counted_bytes
        self._count(undo_log, more - (0 if before is None else before.counted_bytes))

    def set_soft(self, undo_log: UndoLog, **changes: Any) -> None:
        """Change what is in memory alone."""
        undo_log.set_attribute(self, "soft", replace(self.soft, **changes))

    def set_offsets(self, undo_log: UndoLog, member_id: str, reported: ReportedOffsets) -> None:
        """What a member reports of its state."""
        before = self.offsets.get(member_id, NO_REPORTED_OFFSETS)
        undo_log.put(self.offsets, member_id, reported)
        self._count(undo_log, reported.counted_bytes - before.counted_bytes)

    def _count(self, undo_log: UndoLog, more_bytes: int) -> None:
        if more_bytes:
            undo_log.set_attribute(self, "counted_bytes", self.counted_bytes + more_bytes)

    def _index(
        self,
        undo_log: UndoLog,
        metadata: MemberMetadata | None,
        current: CurrentAssignment,
        *,
        removing: bool = False,
    ) -> None:
        """The member's process holds the member's tasks, or does not any more."""
        if metadata is None:
            return
        process_id = metadata.process_id
        for held in (current.assigned, current.pending):
            for index, tasks in self._indexes(held):
                for task in tasks:
                    processes = list(index.get(task, ()))
                    if removing:
                        processes.remove(process_id)
                    else:
                        processes.append(process_id)
                    if processes:
                        undo_log.put(index, task, tuple(sorted(processes)))
                    else:
                        undo_log.pop(index, task)

    def _indexes(self, held: HeldTasks) -> Iterable[tuple[_Holders, Iterable[TaskId]]]:
        return (
            (self.active_holders, held.active),
            (self.standby_holders, held.standby),
            (self.warmup_holders, held.warmup),
        )

    # Offsets

    def refuse_commit(self, committer: Committer, rules: GroupRules) -> ErrorCode | None:
        """A member commits in its epoch, or in an older one for tasks that it has had since then
        (KIP-1251); any client if there are no members."""
        epoch = committer.epoch
        if epoch < 0 and self.is_empty:
            return None
        if committer.is_transactional and not committer.names_member:
            return None
        if committer.member_id not in self.metadata:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not committer.is_transactional and committer.api_version < COMMITS_FROM:
            return ErrorCode.UNSUPPORTED_VERSION
        current = self.current.get(committer.member_id, NOTHING_ASSIGNED)
        if epoch == current.member_epoch:
            return None
        if epoch > current.member_epoch or self.topology is None:
            return ErrorCode.STALE_MEMBER_EPOCH
        for one in committer.partitions():
            task = TaskId(self.topology.reader_of.get(one.topic, ""), one.partition)
            given = current.assigned.active.get(task, current.pending.active.get(task))
            if given is None or epoch < given:
                return ErrorCode.STALE_MEMBER_EPOCH
        return None

    def note_commit(self, decision: Decision, member_id: str) -> None:
        """A commit is no heartbeat."""

    def refuse_fetch(self, member_id: str | None, epoch: int) -> ErrorCode | None:
        """A member fetches in its epoch."""
        if member_id is None and epoch < 0:
            return None
        if member_id is None or member_id not in self.metadata:
            return ErrorCode.UNKNOWN_MEMBER_ID
        current = self.current.get(member_id, NOTHING_ASSIGNED)
        return None if epoch == current.member_epoch else ErrorCode.STALE_MEMBER_EPOCH

    def refuse_offset_delete(self) -> ErrorCode | None:
        """Those of topics that it does not read may be deleted."""
        return None

    def is_subscribed(self, topic: str) -> bool:
        """Whether it has members, whose topology reads the topic."""
        return not self.is_empty and self.topology is not None and topic in self.topology.reader_of

    def retention_start_ms(self, offset: CommittedOffset) -> int | None:
        """The commit."""
        return offset.commit_timestamp_ms

    @property
    def may_expire(self) -> bool:
        """Once it is empty."""
        return self.is_empty

    # Administration, and the end of the group

    def describe(self) -> DescribedGroup:
        """As StreamsGroupDescribe has it."""
        members = filter(None, map(self.member, sorted(self.metadata)))
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state.value,
            group_epoch=self.epoch,
            assignment_epoch=self.target_epoch,
            topology=describe_topology(self.soft.configured, self.topology),
            members=[
                describe_member(
                    one,
                    self.offsets.get(one.member_id, NO_REPORTED_OFFSETS),
                    self.targets.get(one.member_id, NO_TASKS),
                )
                for one in members
            ],
            assignor_name=STICKY,
        )

    def record_keys(self) -> Iterator[Message]:
        """All records, in the order in which Kafka deletes them."""
        group_id = self.group_id
        members = sorted({*self.metadata, *self.current, *self.targets})
        for member_id in members:
            yield StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
        for member_id in members:
            yield StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
        yield StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)
        for member_id in members:
            yield StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
        yield StreamsGroupMetadataKey(group_id=group_id)
        yield StreamsGroupTopologyKey(group_id=group_id)

    def timers(self) -> Iterator[TimerName]:
        """Sessions, revocations, and the first assignment."""
        for member_id in self.metadata:
            yield timers.session_timer(self.group_id, member_id)
            yield timers.rebalance_timer(self.group_id, member_id)
        yield timers.initial_delay_timer(self.group_id)

    def works(self) -> tuple[WorkName, ...]:
        """A target assignment."""
        return (timers.assign_work(self.group_id),)

    def refuse_waiting(self, decision: Decision, error: ErrorCode) -> None:
        """No request waits: heartbeats are answered when their records are committed."""

    # Comparing

    def durable_view(self) -> Any:
        """What its records say."""
        if not self.has_records:
            return None
        return (
            self.value,
            self.target_value,
            self.topology,
            dict(self.metadata),
            dict(self.current),
            dict(self.targets),
        )

    def settled_view(self) -> Any:
        """What is stored, while all members have their targets."""
        if self.state not in (StreamsState.STABLE, StreamsState.EMPTY):
            return None
        return self.durable_view()


def new_member(member_id: str) -> StreamsMember:
    """A member that has said nothing yet."""
    return StreamsMember(member_id, NEW_MEMBER, NOTHING_ASSIGNED)


def _held_count(current: CurrentAssignment) -> int:
    return current.assigned.size + current.pending.size
