"""DeleteRecords (key 21) v0-2: give up the records below an offset (KIP-107).

Per partition, in this order:

1. no such topic: 3; an internal topic: 17;
2. not hosted here though it exists, or not led: 6; no such partition: 3; log directory offline: 56;
3. a topic whose `cleanup.policy` does not include `delete`: 44;
4. an offset below -1 or above the high watermark: 1.

-1 stands for the high watermark. Asking for less than is gone already changes nothing and is no
error. The answer's low watermark is where the log starts now; with an error it is -1. A partition
that is named twice is taken as named last.

The new start is written down later (`log.flush.start.offset.checkpoint.interval.ms`), as in Kafka:
a crash before that lets the log begin at its first segment again.

Deviation: the low watermark is the leader's own start, since a node has no followers to wait for.
"""

from __future__ import annotations

from fencepost.broker.cluster.cluster_view import INTERNAL_TOPICS
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.net.registry import Pieces, RequestContext, handles
from fencepost.machines.image import ClusterImage
from fencepost.runtime.replicas import ReplicaManager
from fencepost.wire.api.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from fencepost.wire.errors import ErrorCode


@handles(DeleteRecordsRequest, versions="0-2")
def handle(
    context: RequestContext,
    request: DeleteRecordsRequest,
    *,
    metadata: MetadataCache,
    replicas: ReplicaManager,
) -> Pieces:
    """Move the start of each partition's log."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = wanted.setdefault(topic.name, {})
        offsets.update(
            (partition.partition_index, partition.offset) for partition in topic.partitions
        )
    topics = []
    for name, offsets in wanted.items():
        partitions = []
        for index, offset in offsets.items():
            partitions.append(
                _result(index, _delete(metadata.image, replicas, name, index, offset))
            )
            yield None
        topics.append(DeleteRecordsTopicResult(name=name, partitions=partitions))
    return DeleteRecordsResponse(topics=topics)


def _result(index: int, outcome: int | ErrorCode) -> DeleteRecordsPartitionResult:
    if isinstance(outcome, ErrorCode):
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=-1, error_code=int(outcome)
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=outcome)


def _delete(
    image: ClusterImage, replicas: ReplicaManager, topic: str, index: int, offset: int
) -> int | ErrorCode:
    """Where the log starts now, or why nothing was deleted."""
    if topic not in image.topics_by_name:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    hosted = replicas.get(topic, index)
    if isinstance(hosted, ErrorCode):
        return hosted
    if not hosted.machine.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if not hosted.log.config.is_deleted:
        return ErrorCode.POLICY_VIOLATION
    start = hosted.machine.delete_records(offset)
    if isinstance(start, ErrorCode):
        return start
    try:
        hosted.log.advance_start_offset(start)
    except OSError as error:
        replicas.storage_failed(
            hosted, f"{hosted.key}: records could not be deleted: {error}", error
        )
        return ErrorCode.KAFKA_STORAGE_ERROR
    return hosted.log.start_offset
