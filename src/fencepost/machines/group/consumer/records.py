"""The records of consumer groups."""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.machines.group.consumer.group import ConsumerGroup, ResolvedRegex
from fencepost.machines.group.consumer.member import Partitions, Progress, Subscription
from fencepost.machines.group.next_epoch import next_epoch
from fencepost.machines.group.records import GroupRecord
from fencepost.wire.records.group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
)
from fencepost.wire.types import Uuid


def member_record(group_id: str, member_id: str, said: Subscription) -> GroupRecord:
    """What the member says of itself."""
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    return key, said.to_record()


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    """The group's epoch, and the hash of its topics' metadata."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return ConsumerGroupMetadataKey(group_id=group_id), value


def epoch_records(group: ConsumerGroup, metadata_hash: int) -> Iterator[GroupRecord]:
    """The group's next epoch, with the hash of its topics' metadata.

    What brokers of before 4.1 kept in the place of the hash is deleted.
    """
    yield epoch_record(group.group_id, next_epoch(group.epoch), metadata_hash)
    if group.has_partition_metadata:
        yield ConsumerGroupPartitionMetadataKey(group_id=group.group_id), None


def target_record(group_id: str, member_id: str, target: Partitions) -> GroupRecord:
    """What the member is to have."""
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    topics = [
        TopicPartition(topic_id=topic_id, partitions=sorted(indexes))
        for topic_id, indexes in sorted(target.items())
    ]
    return key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)


def target_from_record(value: ConsumerGroupTargetAssignmentMemberValue) -> Partitions:
    """What the record says that a member is to have."""
    target: dict[Uuid, frozenset[int]] = {}
    for topic in value.topic_partitions:
        if topic.partitions:
            target[topic.topic_id] = frozenset(topic.partitions) | target.get(
                topic.topic_id, frozenset()
            )
    return target


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> GroupRecord:
    """For which epoch the target was computed, and when; 0 lets the next be computed at once."""
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value


def progress_record(group_id: str, member_id: str, progress: Progress) -> GroupRecord:
    """How far the member has come."""
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return key, progress.to_record()


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex | None) -> GroupRecord:
    """The topics of a regular expression; None deletes it."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    if resolved is None:
        return key, None
    topics, version, timestamp_ms = resolved
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(topics), version=version, timestamp=timestamp_ms
    )
    return key, value


def member_tombstones(group_id: str, member_id: str) -> Iterator[GroupRecord]:
    """The end of a member, in Kafka's order."""
    yield ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None
    yield ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None
    yield ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None
