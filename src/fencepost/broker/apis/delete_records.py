"""DeleteRecords (key 21) v0-2: give up the records below an offset (KIP-107).

Per partition, in this order:

1. no such topic: 3; an internal topic: 17;
2. not hosted here though it exists, or not led: 6; no such partition: 3; log directory offline: 56;
3. a topic whose `cleanup.policy` does not include `delete`: 44;
4. an offset below -1 or above the high watermark: 1.

-1 stands for the high watermark. Asking for less than is gone already changes nothing and is no
error. The leader's log starts at the offset at once; the answer is given when those of all live
replicas do, or is 7 after `timeout_ms`. Its low watermark is the least of those starts; with an
error other than 7 it is -1. A partition that is named twice is taken as named last.

The new start is written down later (`log.flush.start.offset.checkpoint.interval.ms`), as in Kafka:
a crash before that lets the log begin at its first segment again.
"""

from __future__ import annotations

from concurrent.futures import Future

from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.net.registry import handles
from fencepost.machines.driver import Driver
from fencepost.machines.image import ClusterImage
from fencepost.machines.partition import AdvanceLogStart, DeleteRecordsResult
from fencepost.runtime.clock import Clocks
from fencepost.runtime.internal_topics import INTERNAL_TOPICS
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.wire.api.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from fencepost.wire.errors import ErrorCode


@handles(DeleteRecordsRequest)
def handle(
    context: RequestContext,
    request: DeleteRecordsRequest,
    *,
    clocks: Clocks,
    driver: Driver,
    metadata: MetadataCache,
    replicas: ReplicaManager,
) -> Pieces:
    """Move the start of each partition's log."""
    deadline_ms = clocks.now_ms() + request.timeout_ms
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = wanted.setdefault(topic.name, {})
        offsets.update(
            (partition.partition_index, partition.offset) for partition in topic.partitions
        )
    results: dict[str, dict[int, Future[DeleteRecordsResult]]] = {}
    for name, offsets in wanted.items():
        for index, offset in offsets.items():
            result: Future[DeleteRecordsResult] = Future()
            results.setdefault(name, {})[index] = result
            hosted = _find(metadata.image, replicas, name, index)
            if isinstance(hosted, ErrorCode):
                result.set_result(DeleteRecordsResult(hosted))
            else:
                wish = AdvanceLogStart(offset, result.set_result, deadline_ms)
                driver.feed(hosted.key, wish)
            yield None
    topics = []
    for name, of_topic in results.items():
        partitions = []
        for index, result in of_topic.items():
            if not result.done():
                yield result
            error_code, low_watermark = result.result()
            partitions.append(
                DeleteRecordsPartitionResult(
                    partition_index=index, low_watermark=low_watermark, error_code=int(error_code)
                )
            )
        topics.append(DeleteRecordsTopicResult(name=name, partitions=partitions))
    return DeleteRecordsResponse(topics=topics)


def _find(
    image: ClusterImage, replicas: ReplicaManager, topic: str, index: int
) -> HostedPartition | ErrorCode:
    """The partition whose machine is to be asked, or why none is."""
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
    return hosted
