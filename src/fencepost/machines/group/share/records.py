"""The records of share groups."""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.machines.group.records import GroupRecord
from fencepost.machines.group.share.assignor import Partitions
from fencepost.machines.group.share.member import Progress, Subscription, partitions_to
from fencepost.machines.group.share.state import StatePartitions
from fencepost.wire.records.group import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from fencepost.wire.records.group_share import TopicPartition


def member_record(group_id: str, member_id: str, said: Subscription) -> GroupRecord:
    """What the member says of itself."""
    key = ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    return key, said.to_record()


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    """The group's epoch, and the hash of its topics' metadata."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return ShareGroupMetadataKey(group_id=group_id), value


def target_record(group_id: str, member_id: str, target: Partitions) -> GroupRecord:
    """What the member is to have."""
    key = ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    topics = partitions_to(TopicPartition, target)
    return key, ShareGroupTargetAssignmentMemberValue(topic_partitions=topics)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> GroupRecord:
    """For which epoch the target was computed, and when; 0 lets the next be computed at once."""
    value = ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value


def progress_record(group_id: str, member_id: str, progress: Progress) -> GroupRecord:
    """What the member is told."""
    key = ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return key, progress.to_record()


def state_record(group_id: str, state: StatePartitions) -> GroupRecord:
    """Of which partitions share coordinators keep a state."""
    return ShareGroupStatePartitionMetadataKey(group_id=group_id), state.to_record()


def member_tombstones(group_id: str, member_id: str) -> Iterator[GroupRecord]:
    """The end of a member, in Kafka's order."""
    yield ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None
    yield ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None
    yield ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None
