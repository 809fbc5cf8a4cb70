"""DeleteRecords (key 21) v0-2: give up the records below an offset (KIP-107).

Per partition, in this order:

1. no right to delete from the topic: 29; no such topic: 3; an internal topic: 17;
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

from fencepost.machines.driver import Driver
from fencepost.machines.image import ClusterImage
from fencepost.machines.partition import AdvanceLogStart, DeleteRecordsResult
from fencepost.runtime.clock import Clocks
from fencepost.runtime.internal_topics import INTERNAL_TOPICS
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.access import Find, PartitionAccess
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.parts import ClusterMetadata
from fencepost.runtime.requests.permissions import DELETE_TOPIC
from fencepost.wire.api.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from fencepost.wire.errors import ErrorCode


def delete_records(
    context: RequestContext,
    request: DeleteRecordsRequest,
    *,
    clocks: Clocks,
    driver: Driver,
    metadata: ClusterMetadata,
    partitions: PartitionAccess,
) -> Pieces:
    """Move the start of each partition's log."""
    deadline_ms = clocks.now_ms() + request.timeout_ms
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = wanted.setdefault(topic.name, {})
        offsets.update(
            (partition.partition_index, partition.offset) for partition in topic.partitions
        )
    find = partitions.finder(context, DELETE_TOPIC, by_id=False)
    results: dict[str, dict[int, Future[DeleteRecordsResult]]] = {}
    for name, offsets in wanted.items():
        refusal = _topic_refusal(context, partitions, metadata.image, name)
        for index, offset in offsets.items():
            result: Future[DeleteRecordsResult] = Future()
            results.setdefault(name, {})[index] = result
            hosted = refusal or _find(find, name, index)
            if isinstance(hosted, ErrorCode):
                result.set_result(DeleteRecordsResult(hosted))
            else:
                wish = AdvanceLogStart(offset, result.set_result, deadline_ms)
                driver.feed(hosted.key, wish)
            yield None
    topics = []
    for name, of_topic in results.items():
        answers = []
        for index, result in of_topic.items():
            if not result.done():
                yield result
            error_code, low_watermark = result.result()
            answers.append(
                DeleteRecordsPartitionResult(
                    partition_index=index, low_watermark=low_watermark, error_code=int(error_code)
                )
            )
        topics.append(DeleteRecordsTopicResult(name=name, partitions=answers))
    return DeleteRecordsResponse(topics=topics)


def _topic_refusal(
    context: RequestContext, partitions: PartitionAccess, image: ClusterImage, topic: str
) -> ErrorCode:
    """Why no records of the topic may be deleted; NONE if they may."""
    refusal = partitions.topic_refusal(context, DELETE_TOPIC, topic)
    if refusal is not ErrorCode.NONE:
        return refusal
    if topic not in image.topics_by_name:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.INVALID_TOPIC_EXCEPTION if topic in INTERNAL_TOPICS else ErrorCode.NONE


def _find(find: Find, topic: str, index: int) -> HostedPartition | ErrorCode:
    """The partition that this broker leads, or why its records are not deleted."""
    hosted = find(topic, index)
    if isinstance(hosted, ErrorCode):
        return hosted
    if not hosted.machine.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if not hosted.log.config.is_deleted:
        return ErrorCode.POLICY_VIOLATION
    return hosted
