"""ListOffsets (key 2) v1-11: the offset at a point in time, or at an end of the log.

Per partition, in this order:

1. named twice: 42, once per topic of the request that names it;
2. a negative timestamp that the version does not have: 35;
3. no right to describe the topic: 29; not hosted here though it exists: 6; no such partition: 3;
   log directory offline: 56;
4. `current_leader_epoch` (v4+; -1: not checked) older than ours: 74, newer: 75;
5. we do not lead: 6, but replica id -2 (a debugging consumer) may ask any replica;
6. while a new leader's high watermark has not reached the start of its epoch, the end of the log
   and records that may lie behind it are 78 (5 before v5): a smaller answer than before the
   election would look like lost records (KIP-207).

Negative timestamps: -1 the end (high watermark; last stable offset for read_committed; end of the
log for a follower), -2 and -4 the start, -3 (v7) the first record with the greatest timestamp, -5
(v9) and -6 (v11) ends of tiered storage, which does not exist here: offset -1. From 0 on: the
first record at or after the time. A record that may not be read yet is not found: offset and
timestamp -1. What a log cannot do is answered as `log.error_codes` says.

Deviations: an isolation level that does not exist is 42, where Kafka fails with -1; a greatest
timestamp whose record was deleted is not found, where Kafka gives its former offset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from concurrent.futures import Future
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from fencepost.batch.header import BatchHeader
from fencepost.log.disk import Buffer
from fencepost.log.error_codes import LOG_ERRORS
from fencepost.log.readable_log import ReadableLog
from fencepost.log.reading import TimestampedOffset, find_in_batch
from fencepost.machines.partition.inputs import (
    Isolation,
    ListedOffset,
    TimestampLookup,
)
from fencepost.machines.partition.queries import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from fencepost.runtime.log_errors import answer_log_error
from fencepost.runtime.replicas import HostedPartition, ReplicaManager
from fencepost.runtime.requests.access import Find, PartitionAccess
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.parts import LogReads
from fencepost.runtime.requests.permissions import DESCRIBE_TOPIC
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from fencepost.wire.errors import ErrorCode

DEBUGGING_REPLICA_ID = -2
FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5

FIRST_VERSIONS = {
    LATEST_TIMESTAMP: 1,
    EARLIEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
"""The version from which each negative timestamp may be asked for."""


class _Lookup(NamedTuple):
    """One request, and what its offsets are looked up with."""

    version: int
    request: ListOffsetsRequest
    find: Find
    reads: LogReads
    replicas: ReplicaManager


def list_offsets(
    context: RequestContext,
    request: ListOffsetsRequest,
    *,
    partitions: PartitionAccess,
    reads: LogReads,
    replicas: ReplicaManager,
) -> Pieces:
    """Answer every partition of the request, in its order; a repeated one once per topic."""
    counts = Counter(
        (topic.name, question.partition_index)
        for topic in request.topics
        for question in topic.partitions
    )
    find = partitions.finder(context, DESCRIBE_TOPIC, by_id=False)
    lookup = _Lookup(context.api_version, request, find, reads, replicas)
    topics = []
    for topic in request.topics:
        answers = {}
        for question in topic.partitions:
            index = question.partition_index
            if counts[topic.name, index] == 1:
                answers[index] = yield from _answer(lookup, topic.name, question)
                yield None
            else:
                answers[index] = _failed(question, ErrorCode.INVALID_REQUEST)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=list(answers.values())))
    return ListOffsetsResponse(topics=topics)


def _failed(question: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=question.partition_index, error_code=int(error)
    )


def _answer(
    lookup: _Lookup, topic: str, question: ListOffsetsPartition
) -> Generator[Future[Any] | None, None, ListOffsetsPartitionResponse]:
    version = lookup.version
    listed = yield from _list(lookup, topic, question)
    if version < FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE and (
        listed is ErrorCode.OFFSET_NOT_AVAILABLE
    ):
        listed = ErrorCode.LEADER_NOT_AVAILABLE
    if isinstance(listed, ErrorCode):
        return _failed(question, listed)
    return ListOffsetsPartitionResponse(
        partition_index=question.partition_index,
        timestamp=listed.timestamp_ms,
        offset=listed.offset,
        leader_epoch=listed.leader_epoch if version >= 4 else -1,
    )


def _list(
    lookup: _Lookup, topic: str, question: ListOffsetsPartition
) -> Generator[Future[Any] | None, None, ListedOffset | ErrorCode]:
    version, request = lookup.version, lookup.request
    if question.timestamp < 0 and version < FIRST_VERSIONS.get(question.timestamp, version + 1):
        return ErrorCode.UNSUPPORTED_VERSION
    if request.isolation_level not in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
        return ErrorCode.INVALID_REQUEST
    hosted = lookup.find(topic, question.partition_index)
    if isinstance(hosted, ErrorCode):
        return hosted
    is_follower = request.replica_id >= 0
    listed = hosted.machine.list_offset(
        timestamp_ms=question.timestamp,
        current_leader_epoch=question.current_leader_epoch,
        isolation=None if is_follower else request.isolation_level,
        leader_only=request.replica_id != DEBUGGING_REPLICA_ID,
    )
    if not isinstance(listed, TimestampLookup):
        return listed
    try:
        found = yield from _look_up(lookup.reads, hosted, listed.timestamp_ms)
        return listed.settle(found)
    except LOG_ERRORS as error:
        return answer_log_error(lookup.replicas, hosted, "searching by time", error)


def _look_up(
    reads: LogReads, hosted: HostedPartition, timestamp_ms: int
) -> Generator[Future[Any] | None, None, TimestampedOffset | None]:
    """The record as far as it is still there.

    The log may change while a batch is read or searched, so nothing of it is kept but the batch.
    """
    partition_log = hosted.log
    for skip in count():
        batch = yield from reads.read(partial(_find_batch, partition_log, timestamp_ms, skip))
        if batch is None:
            break
        data, header = batch
        at_least_ms = header.max_timestamp if timestamp_ms == MAX_TIMESTAMP else timestamp_ms
        found = yield from reads.decompress(
            partial(find_in_batch, data, header, at_least_ms, partition_log.start_offset)
        )
        if found is not None:
            return found
        yield None
    return None


def _find_batch(
    partition_log: ReadableLog, timestamp_ms: int, skip: int
) -> tuple[Buffer, BatchHeader] | None:
    """The batch that may have the record, behind `skip` others. Raises LOG_ERRORS, and
    what `LogReads.read` catches."""
    if timestamp_ms == MAX_TIMESTAMP:
        return partition_log.batch_by_max_timestamp(skip)
    return partition_log.batch_by_timestamp(timestamp_ms, skip)
