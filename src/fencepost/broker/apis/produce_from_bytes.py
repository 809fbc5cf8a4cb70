"""Produce from bytes: no messages between a request's bytes and its answer's.

What today's clients send to partitions that are led here needs little of what a request can need:
the compiled `batch._produce` reads it where it was received, checks each batch in one call, and
writes the answer. A request that needs more, or has something wrong, is left to `produce`, which
begins again at the first byte: nothing has been appended before all of the request was looked at.
So both take a request whole, and the answers are the same, byte for byte. Batches of all ways go
through `CombinedAppends`, so that they may alternate on a partition. Plain requests seldom come
here: `produce_in_blocks` takes those that follow a connection's first, before they are looked at
one by one.

What is taken: acks 0, 1 or all; every partition here, and not a brokers' topic; every batch sound,
with nothing in it to be put right or compressed again, and none behind the first for which a
segment may have to be begun, since that takes milliseconds. A compressed batch is checked by
`prepare_produced`, which decompresses it. A transactional id with nothing but batches of one
producer's transaction is taken where no coordinator need be asked: the transaction is open in all
of these partitions already, or nothing is verified.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Final, NamedTuple

from fencepost.batch import backend
from fencepost.batch.errors import BatchError
from fencepost.batch.header import BatchHeader, is_compressed
from fencepost.batch.produced import ProduceRules, prepare_produced
from fencepost.batch.record_batch import RecordBatch
from fencepost.broker.apis.produce_partitions import find_partition
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.machines.partition import NO_TICKET, Produce, ProduceResult
from fencepost.runtime.clock import Clocks
from fencepost.runtime.combined_appends import CombinedAppends
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.access import PartitionAccess
from fencepost.runtime.requests.parts import INLINE_BYTES_MAX
from fencepost.runtime.requests.permissions import WRITE_TRANSACTIONAL_ID
from fencepost.runtime.requests.produce_answers import finish
from fencepost.runtime.requests.produce_versions import TOPIC_IDS_FROM, ZSTD_FROM, asking_of
from fencepost.runtime.transactional_writes import TransactionalWrites
from fencepost.wire.api.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

PLAIN_BYTES_MAX: Final = 2 * 1024 * 1024
"""Uncompressed batches up to this size are walked over on the event loop."""
AT_ONCE_S: Final = 0.002
"""How long batches behind the first are looked at; a request that takes longer is left."""

Topics = list[tuple[bytes, list[tuple[int, int, int]]]]
"""Names or ids, and for each partition its index, where its batch is, and its size."""
Batches = list[tuple[HostedPartition, RecordBatch]]


def produce_from_bytes(
    context: PendingRequest,
    frame: memoryview,
    body_start: int,
    *,
    appends: CombinedAppends,
    clocks: Clocks,
    metadata: MetadataCache,
    partitions: PartitionAccess,
    writes: TransactionalWrites,
) -> bool:
    """Take a request from its bytes; whether it was taken, and is answered some time."""
    kernel = backend.produce_kernel
    version = context.api_version
    if kernel is None:
        return False
    request = kernel.read_request(frame, body_start, version)
    if request is None:
        return False
    transactional_id, acks, timeout_ms, topics = request
    if not -1 <= acks <= 1:
        return False
    check = _Check(kernel, context, frame, clocks.wall_ms(), transactional_id is not None)
    batches = _check(check, topics, partitions, appends)
    if not batches:
        return False
    ticket = _find_ticket(check, transactional_id, batches, partitions, writes)
    if ticket is None:
        return False
    deadline_ms = clocks.now_ms() + max(timeout_ms, 0)
    answer = _Answer(kernel, context, metadata, acks, topics, len(batches))
    for place, (hosted, batch) in enumerate(batches):
        token = answer.token(place, hosted, batch)
        appends.add(hosted, Produce(batch, acks, token, deadline_ms, ticket), context.fail)
    return True


class _Check(NamedTuple):
    """What is known of all batches of a request when they are checked."""

    kernel: Any
    context: PendingRequest
    frame: memoryview
    wall_ms: int
    is_transactional: bool


def _check(
    check: _Check, topics: Topics, partitions: PartitionAccess, appends: CombinedAppends
) -> Batches | None:
    """What is to be appended, and where; None if any of it is to be left."""
    began = 0.0
    is_by_id = check.context.api_version >= TOPIC_IDS_FROM
    batches: Batches = []
    for name, sent in topics:
        for index, at, size_bytes in sent:
            hosted = find_partition(partitions, check.context, is_by_id, name, index)
            if hosted is None:
                return None
            batch = _check_batch(check, at, size_bytes, hosted.log.config.produce_rules)
            if batch is None or (batches and appends.begins_segment(hosted, batch.header)):
                return None
            batches.append((hosted, batch))
            if not began:
                began = perf_counter()
            elif perf_counter() - began > AT_ONCE_S:
                return None
    return batches


def _check_batch(
    check: _Check, at: int, size_bytes: int, rules: ProduceRules
) -> RecordBatch | None:
    """The batch as it is to be appended."""
    if size_bytes > PLAIN_BYTES_MAX:
        return None
    kernel, context, frame, wall_ms, is_transactional = check
    header = kernel.check_batch(
        BatchHeader, frame, at, size_bytes, rules, wall_ms, is_transactional
    )
    data = frame[at : at + size_bytes]
    if header is not None:
        return RecordBatch(header, data)
    if rules.codec is not None or size_bytes > INLINE_BYTES_MAX or not is_compressed(data):
        return None
    try:
        batch = prepare_produced(
            data,
            rules,
            wall_ms,
            allow_zstd=context.api_version >= ZSTD_FROM,
            max_decompressed_bytes=INLINE_BYTES_MAX,
        )
    except BatchError:
        return None
    return batch if batch.header.is_transactional == is_transactional else None


def _find_ticket(
    check: _Check,
    transactional_id: bytes | None,
    batches: Batches,
    partitions: PartitionAccess,
    writes: TransactionalWrites,
) -> int | None:
    """The ticket that the batches are appended with; None if a coordinator has to be asked."""
    if transactional_id is None:
        return NO_TICKET
    try:
        producer = transactional_id.decode()
    except UnicodeDecodeError:
        return None
    if not partitions.access.allows(check.context, WRITE_TRANSACTIONAL_ID, producer):
        return None
    of_first = batches[0][1].header
    producer_id, epoch = of_first.producer_id, of_first.producer_epoch
    for _, batch in batches:
        if batch.header.producer_id != producer_id or batch.header.producer_epoch != epoch:
            return None
    machines = [hosted.machine for hosted, _ in batches]
    asking = asking_of(check.context.api_version)
    return writes.ticket_at_once(producer, producer_id, epoch, asking, machines)


class _Answer:
    """The answer to a request, as soon as all of its batches have theirs."""

    __slots__ = (
        "_acks",
        "_context",
        "_has_failed",
        "_kernel",
        "_left",
        "_metadata",
        "_results",
        "_topics",
    )

    def __init__(
        self,
        kernel: Any,
        context: PendingRequest,
        metadata: MetadataCache,
        acks: int,
        topics: Topics,
        batches: int,
    ) -> None:
        self._kernel = kernel
        self._context = context
        self._metadata = metadata
        self._acks = acks
        self._topics = topics
        self._left = batches
        self._has_failed = False
        self._results: list[Any] = [None] * batches

    def token(
        self, place: int, hosted: HostedPartition, batch: RecordBatch
    ) -> Callable[[ProduceResult], None]:
        """What is called with the result of the batch in that place."""
        header = batch.header
        records, size_bytes = header.last_offset_delta + 1, len(batch.data)
        return partial(self._note, place, hosted, records, size_bytes)

    def _note(
        self,
        place: int,
        hosted: HostedPartition,
        records: int,
        size_bytes: int,
        result: ProduceResult,
    ) -> None:
        error_code = result.error_code
        hosted.traffic.produced(records, size_bytes, error_code)
        if error_code is not ErrorCode.NONE:
            self._has_failed = True
        self._results[place] = result
        self._left -= 1
        if not self._left:
            self._finish()

    def _finish(self) -> None:
        context = self._context
        if self._has_failed:
            finish(context, self._acks, self._response(), self._metadata)
        elif self._acks == 0:
            context.no_reply()
        else:
            version, correlation_id = context.api_version, context.correlation_id
            answer = self._kernel.answer(version, correlation_id, self._topics, self._results)
            context.reply_without_errors(answer)

    def _response(self) -> ProduceResponse:
        """The same as a message: something in it is an error."""
        results = iter(self._results)
        is_by_id = self._context.api_version >= TOPIC_IDS_FROM
        response = ProduceResponse()
        for name, partitions in self._topics:
            topic = (
                TopicProduceResponse(topic_id=Uuid(name))
                if is_by_id
                else TopicProduceResponse(name=name.decode())
            )
            response.responses.append(topic)
            for index, _, _ in partitions:
                result = next(results)
                topic.partition_responses.append(
                    PartitionProduceResponse(
                        index=index,
                        error_code=int(result.error_code),
                        error_message=result.error_message,
                        base_offset=result.base_offset,
                        log_append_time_ms=result.log_append_time_ms,
                        log_start_offset=result.log_start_offset,
                    )
                )
        return response
