"""The records of streams groups (17, 19-23): how they are made, and what they say.

Lists in them are sorted, so that equal states make equal records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fencepost.machines.group.records import GroupRecord
from fencepost.machines.group.streams.member import MemberMetadata, StreamsMember
from fencepost.machines.group.streams.reconciliation import CurrentAssignment, MemberState
from fencepost.machines.group.streams.tasks import (
    HeldTasks,
    TaskId,
    Tasks,
    by_subtopology,
    task_set,
)
from fencepost.machines.group.streams.topology import Topology
from fencepost.wire.message import Message
from fencepost.wire.records.group_streams import (
    CurrentTaskIds,
    Endpoint,
    KeyValue,
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey as CurrentKey,
    StreamsGroupCurrentMemberAssignmentValue as CurrentValue,
    StreamsGroupMemberMetadataKey as MemberKey,
    StreamsGroupMemberMetadataValue as MemberValue,
    StreamsGroupMetadataKey as GroupKey,
    StreamsGroupMetadataValue as GroupValue,
    StreamsGroupTargetAssignmentMemberKey as TargetKey,
    StreamsGroupTargetAssignmentMemberValue as TargetValue,
    StreamsGroupTargetAssignmentMetadataKey as TargetEpochKey,
    StreamsGroupTargetAssignmentMetadataValue as TargetEpochValue,
    StreamsGroupTopologyKey as TopologyKey,
    TargetTaskIds,
)

KEYS: Final[tuple[type[Message], ...]] = (
    GroupKey,
    MemberKey,
    TargetEpochKey,
    TargetKey,
    CurrentKey,
    TopologyKey,
)


def group_record(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_topology_epoch: int,
    configs: Mapping[str, str],
    descriptions: tuple[int, int],
) -> GroupRecord:
    """Record 17; `descriptions` are the epochs of the topologies whose description a plugin stored
    and refused, which are kept for a broker that has one (KIP-1331)."""
    stored, failed = descriptions
    listed = [LastAssignmentConfig(key=key, value=value) for key, value in sorted(configs.items())]
    value = GroupValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=listed,
        stored_description_topology_epoch=stored,
        failed_description_topology_epoch=failed,
    )
    return GroupKey(group_id=group_id), value


def topology_record(group_id: str, topology: Topology) -> GroupRecord:
    """Record 23."""
    return TopologyKey(group_id=group_id), topology.value


def member_record(group_id: str, member_id: str, metadata: MemberMetadata) -> GroupRecord:
    """Record 19."""
    endpoint = metadata.user_endpoint
    value = MemberValue(
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[KeyValue(key=key, value=value) for key, value in metadata.client_tags],
    )
    return MemberKey(group_id=group_id, member_id=member_id), value


def metadata_of(value: MemberValue) -> MemberMetadata:
    """What record 19 says."""
    endpoint = value.user_endpoint
    return MemberMetadata(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        value.rebalance_timeout_ms,
        value.topology_epoch,
        value.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        tuple(sorted((one.key, one.value) for one in value.client_tags)),
    )


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> GroupRecord:
    """Record 20. A timestamp of 0 lets the next target be computed at once."""
    value = TargetEpochValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return TargetEpochKey(group_id=group_id), value


def target_record(group_id: str, member_id: str, target: Tasks) -> GroupRecord:
    """Record 21."""
    active, standby, warmup = (
        [TargetTaskIds(subtopology_id=id_, partitions=indexes) for id_, indexes in ids]
        for ids in map(by_subtopology, target)
    )
    value = TargetValue(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)
    return TargetKey(group_id=group_id, member_id=member_id), value


def target_of(value: TargetValue) -> Tasks:
    """What record 21 says."""
    return Tasks(*map(task_set, (value.active_tasks, value.standby_tasks, value.warmup_tasks)))


def current_record(group_id: str, member_id: str, current: CurrentAssignment) -> GroupRecord:
    """Record 22."""
    assigned, pending = current.assigned, current.pending
    value = CurrentValue(
        member_epoch=current.member_epoch,
        previous_member_epoch=current.previous_member_epoch,
        state=int(current.state),
        active_tasks=_with_epochs(assigned.active),
        standby_tasks=_without_epochs(assigned.standby),
        warmup_tasks=_without_epochs(assigned.warmup),
        active_tasks_pending_revocation=_with_epochs(pending.active),
        standby_tasks_pending_revocation=_without_epochs(pending.standby),
        warmup_tasks_pending_revocation=_without_epochs(pending.warmup),
    )
    return CurrentKey(group_id=group_id, member_id=member_id), value


def current_of(value: CurrentValue) -> CurrentAssignment:
    """What record 22 says; a state of a later version is UNKNOWN."""
    states = MemberState.__members__.values()
    assigned = (value.active_tasks, value.standby_tasks, value.warmup_tasks)
    pending = (
        value.active_tasks_pending_revocation,
        value.standby_tasks_pending_revocation,
        value.warmup_tasks_pending_revocation,
    )
    return CurrentAssignment(
        value.member_epoch,
        value.previous_member_epoch,
        MemberState(value.state) if value.state in states else MemberState.UNKNOWN,
        _held(*assigned, value.member_epoch),
        _held(*pending, value.member_epoch),
    )


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """The end of a member."""
    return [(key(group_id=group_id, member_id=member_id), None) for key in MEMBER_KEYS]


MEMBER_KEYS: Final = (CurrentKey, TargetKey, MemberKey)
"""The keys of a member's records, in the order in which they are deleted."""


def replacement_records(
    group_id: str, old_id: str, new: StreamsMember, target: Tasks
) -> list[GroupRecord]:
    """A static member came back under another id, and takes over what it had."""
    return [
        *member_tombstones(group_id, old_id),
        member_record(group_id, new.member_id, new.metadata),
        target_record(group_id, new.member_id, target),
        current_record(group_id, new.member_id, new.current),
    ]


def _with_epochs(tasks: Mapping[TaskId, int]) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(
            subtopology_id=subtopology_id,
            partitions=partitions,
            assignment_epochs=[tasks[TaskId(subtopology_id, one)] for one in partitions],
        )
        for subtopology_id, partitions in by_subtopology(tasks)
    ]


def _without_epochs(tasks: Iterable[TaskId]) -> list[CurrentTaskIds]:
    return [CurrentTaskIds(subtopology_id=id_, partitions=ps) for id_, ps in by_subtopology(tasks)]


def _held(
    active: list[CurrentTaskIds],
    standby: list[CurrentTaskIds],
    warmup: list[CurrentTaskIds],
    member_epoch: int,
) -> HeldTasks:
    """Active tasks without epochs, or with the wrong number of them, are of the member's epoch."""
    epochs: dict[TaskId, int] = {}
    for one in active:
        listed = one.assignment_epochs
        if listed is None or len(listed) != len(one.partitions):
            listed = [member_epoch] * len(one.partitions)
        for index, epoch in zip(one.partitions, listed, strict=True):
            epochs[TaskId(one.subtopology_id, index)] = epoch
    return HeldTasks(epochs, task_set(standby), task_set(warmup))
