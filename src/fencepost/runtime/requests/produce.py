"""Produce (key 0) v3-13: batches into logs.

`batch.produced` makes each batch ready to be appended. Everything else is its partition machine's
business: fencing, the in-sync set, idempotence, and when to answer. acks=1 is answered once the
batch is durable here, acks=-1 once it is durable on every in-sync replica, acks=0 not at all; what
goes wrong with acks=0 closes the connection, the only way to be heard. Other acks are 21
INVALID_REQUIRED_ACKS.

v0-2 are advertised and not served (KAFKA-18659; see `wire.api.produce`). Topics are named up to
v12 and go by id from v13. Internal topics are the brokers' to write: 17 INVALID_TOPIC_EXCEPTION,
except for Kafka's admin client, as in Kafka.

Batches of transactions wait until all of the request is looked at, and until the transaction's
coordinator agrees, where it has to be asked (`runtime.transactional_writes`): from v12 on their
partitions become part of the transaction by that. Without a transactional id, or with one that the
client may not write with, all of the request is 53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED, whatever
else is wrong with it; of several producers or epochs in one request all of them 49
INVALID_PRODUCER_ID_MAPPING.

A whole batch that is refused is answered with the log's first offset, as by Kafka, except for 2, 10
and 18. A partition that cannot be had comes before acks that cannot be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from fencepost.batch.errors import BatchError, DecompressionError
from fencepost.batch.header import is_compressed, is_of_transaction
from fencepost.batch.produced import (
    NotOneBatchError,
    ProduceRules,
    RefusedRecordsError,
    prepare_produced,
)
from fencepost.batch.record_batch import RecordBatch
from fencepost.machines.partition import NO_TICKET, Produce, ProduceResult
from fencepost.runtime.clock import Clocks, WorkClock
from fencepost.runtime.combined_appends import CombinedAppends
from fencepost.runtime.internal_topics import INTERNAL_TOPICS
from fencepost.runtime.replicas import HostedPartition
from fencepost.runtime.requests.access import Access, PartitionAccess
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.parts import (
    INLINE_BYTES_MAX,
    BatchDecompression,
    ClusterMetadata,
)
from fencepost.runtime.requests.permissions import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from fencepost.runtime.requests.produce_answers import finish
from fencepost.runtime.requests.produce_versions import TOPIC_IDS_FROM, ZSTD_FROM, asking_of
from fencepost.runtime.transactional_writes import (
    Asking,
    Permission,
    TransactionalWrites,
    Write,
    for_producer,
)
from fencepost.wire.api.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer

ADMIN_CLIENT_ID = "__admin_client"
WORK_S = 10.0
"""Batches of a request that are not begun after so long are 7 REQUEST_TIMED_OUT: they come again
with the client's retry."""
RECOMPRESSION_FACTOR = 4
"""How many times as long a batch takes that is compressed again, too."""
AT_ONCE_S = 0.002
"""How long batches are looked at before the rest of the request is done in pieces."""
PLAIN_BYTES_MAX = 2 * 1024 * 1024
"""Uncompressed batches up to this size are walked over on the event loop."""
_WITHOUT_LOG_START = frozenset(
    (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    )
)
"""Refusals that do not say where the log starts, as Kafka's do not."""
_INLINE_RECOMPRESSED_BYTES_MAX = INLINE_BYTES_MAX // RECOMPRESSION_FACTOR


class _Parts(NamedTuple):
    """What batches are checked by and appended to."""

    appends: CombinedAppends
    clocks: Clocks
    decompression: BatchDecompression
    metadata: ClusterMetadata
    partitions: PartitionAccess
    work: WorkClock
    writes: TransactionalWrites


def produce(
    context: RequestContext,
    request: ProduceRequest,
    *,
    appends: CombinedAppends,
    clocks: Clocks,
    decompression: BatchDecompression,
    metadata: ClusterMetadata,
    partitions: PartitionAccess,
    work: WorkClock,
    writes: TransactionalWrites,
) -> Pieces | None:
    """Feed every partition's machine; answer when all of them have answered."""
    parts = _Parts(appends, clocks, decompression, metadata, partitions, work, writes)
    job = _ProduceJob(parts, context, request)
    left = job.take(request)
    if left:
        return job.take_in_pieces(left)
    job.finish_taking()
    return None


class _Sent(NamedTuple):
    """What a request has for one partition, and the place of the answer."""

    topic: TopicProduceData
    partition: PartitionProduceData
    answer: PartitionProduceResponse


class _Held(NamedTuple):
    """A batch of a transaction, ready to be appended when its coordinator agrees."""

    sent: _Sent
    hosted: HostedPartition
    batch: RecordBatch


class _ProduceJob:
    """One request on its way: the response as it fills, and how many answers it waits for."""

    __slots__ = (
        "_acks",
        "_allow_zstd",
        "_began",
        "_context",
        "_deadline_ms",
        "_held",
        "_outstanding",
        "_parts",
        "_refusal",
        "_response",
        "_transactional_id",
        "_wall_ms",
    )

    def __init__(self, parts: _Parts, context: RequestContext, request: ProduceRequest) -> None:
        self._parts = parts
        self._context = context
        self._acks = request.acks
        self._allow_zstd = context.api_version >= ZSTD_FROM
        self._began = parts.work.work_s()
        self._wall_ms = parts.clocks.wall_ms()
        self._deadline_ms = parts.clocks.now_ms() + max(request.timeout_ms, 0)
        self._response = ProduceResponse()
        self._outstanding = 1  # the request itself, until all of it is taken
        self._refusal = _transaction_refusal(parts.partitions.access, context, request)
        self._transactional_id = request.transactional_id
        self._held: list[_Held] | None = None

    def _worked_s(self) -> float:
        return self._parts.work.work_s() - self._began

    def take(self, request: ProduceRequest) -> deque[_Sent]:
        """Take batches as long as that is quick; those that are left, in order."""
        left: deque[_Sent] = deque()
        is_first = True
        for topic in request.topic_data:
            answered = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
            self._response.responses.append(answered)
            for partition in topic.partition_data:
                answer = PartitionProduceResponse(index=partition.index, base_offset=-1)
                answered.partition_responses.append(answer)
                sent = _Sent(topic, partition, answer)
                is_quick = is_first or (not left and self._worked_s() < AT_ONCE_S)
                if not is_quick or not self._take(sent):
                    left.append(sent)
                is_first = False
        return left

    def take_in_pieces(self, left: deque[_Sent]) -> Pieces:
        """Take the others one by one, large ones in a thread; copies, as the buffer goes on, also
        of those that are held."""
        decompression = self._parts.decompression
        held = self._held or []
        size_bytes = sum(len(sent.partition.records or b"") for sent in left)
        size_bytes += sum(len(one.batch.data) for one in held)
        is_reserved = decompression.reserve(size_bytes)
        if not is_reserved:
            self._refusal = (ErrorCode.REQUEST_TIMED_OUT, "too many large batches wait already")
        try:
            _copy(held, is_reserved)
            for _, partition, _ in left if is_reserved else ():
                if partition.records is not None:
                    partition.records = bytearray(partition.records)
            while left:
                sent = left.popleft()
                if not self._take(sent):
                    yield from self._take_large(sent)
                self._parts.appends.settle()
                yield None
        finally:
            if is_reserved:
                decompression.release(size_bytes)
        self.finish_taking()
        self._parts.appends.settle()
        return None

    def _take(self, sent: _Sent) -> bool:
        """Feed a batch's machine, or refuse the batch; whether it was small enough for that."""
        hosted = self._admit(sent)
        if hosted is None:
            return True
        records = sent.partition.records
        assert records is not None, "it was admitted"
        rules = hosted.log.config.produce_rules
        max_bytes = INLINE_BYTES_MAX if rules.codec is None else _INLINE_RECOMPRESSED_BYTES_MAX
        size_bytes = len(records)
        if size_bytes > max_bytes and (size_bytes > PLAIN_BYTES_MAX or is_compressed(records)):
            return False
        try:
            batch = self._prepare(records, rules, max_bytes)
        except BatchError as error:
            if _is_large(error):
                return False
            _refuse(sent.answer, error, hosted)
        else:
            self._feed_or_hold(sent, hosted, batch)
        return True

    def _take_large(self, sent: _Sent) -> Pieces:
        """The same for a batch that a thread looks at."""
        hosted = self._admit(sent)
        if hosted is None:
            return None
        records = sent.partition.records
        assert records is not None, "it was admitted"
        work = partial(self._prepare, records, hosted.log.config.produce_rules)
        try:
            batch = yield from self._parts.decompression.run(work)
        except BatchError as error:
            _refuse(sent.answer, error, hosted)
            return None
        now = self._find(sent.topic, sent.partition.index)  # it may have been deleted meanwhile
        if isinstance(now, ErrorCode):
            sent.answer.error_code = int(now)
        elif now is not hosted:  # another topic of that name, whose configs say something else
            sent.answer.error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            self._feed_or_hold(sent, hosted, batch)
        return None

    def _feed_or_hold(self, sent: _Sent, hosted: HostedPartition, batch: RecordBatch) -> None:
        if not batch.header.is_transactional:
            self._feed(hosted, batch, sent.answer)
        else:
            if self._held is None:
                self._held = []
            self._held.append(_Held(sent, hosted, batch))

    def _prepare(self, records: Buffer, rules: ProduceRules, max_bytes: int) -> RecordBatch:
        """The batch as it is to be appended; any thread may do that. BatchError."""
        return prepare_produced(
            records,
            rules,
            self._wall_ms,
            allow_zstd=self._allow_zstd,
            max_decompressed_bytes=max_bytes,
        )

    def _admit(self, sent: _Sent) -> HostedPartition | None:
        """The partition that the batch is for; None if it is refused before it is looked at."""
        answer = sent.answer
        if self._refusal is not None:
            answer.error_code = int(self._refusal[0])
            answer.error_message = self._refusal[1]
            return None
        if self._worked_s() > WORK_S:
            answer.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
            answer.error_message = f"the request has taken {WORK_S} s already"
            return None
        hosted = self._find(sent.topic, sent.partition.index)
        if isinstance(hosted, ErrorCode):
            answer.error_code = int(hosted)
            return None
        if not sent.partition.records:
            _refuse(answer, BatchError(ErrorCode.INVALID_RECORD, "there is no record batch"))
            return None
        if self._acks not in (-1, 0, 1):
            answer.error_code = int(ErrorCode.INVALID_REQUIRED_ACKS)
            answer.error_message = f"acks is {self._acks}, allowed are -1, 0 and 1"
            return None
        return hosted

    def _feed(
        self,
        hosted: HostedPartition,
        batch: RecordBatch,
        answer: PartitionProduceResponse,
        ticket: int = NO_TICKET,
    ) -> None:
        self._outstanding += 1

        traffic, header = hosted.traffic, batch.header

        def on_result(result: ProduceResult) -> None:
            traffic.produced(
                header.last_offset_delta + 1, header.size_bytes, int(result.error_code)
            )
            answer.error_code = int(result.error_code)
            answer.error_message = result.error_message
            answer.base_offset = result.base_offset
            answer.log_append_time_ms = result.log_append_time_ms
            answer.log_start_offset = result.log_start_offset
            self.finish_one()

        produce = Produce(batch, self._acks, on_result, self._deadline_ms, ticket)
        self._parts.appends.add(hosted, produce, self._context.fail)

    def _find(self, topic: TopicProduceData, index: int) -> HostedPartition | ErrorCode:
        named = topic.topic_id if self._context.api_version >= TOPIC_IDS_FROM else topic.name
        hosted = self._parts.partitions.find(self._context, WRITE_TOPIC, named, index)
        if (
            not isinstance(hosted, ErrorCode)
            and hosted.topic in INTERNAL_TOPICS
            and self._context.client_id != ADMIN_CLIENT_ID
        ):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        return hosted

    def finish_taking(self) -> None:
        """All of the request is looked at."""
        if self._held:
            self._write_in_transaction(self._held)
        self.finish_one()

    def _write_in_transaction(self, held: list[_Held]) -> None:
        """Append what was held, as soon as the transaction's coordinator agrees."""
        producers = {(h.batch.header.producer_id, h.batch.header.producer_epoch) for h in held}
        if len(producers) > 1:
            for one in held:
                one.sent.answer.error_code = int(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            return
        assert self._transactional_id is not None, "or nothing is held"
        [(producer_id, epoch)] = producers
        asking = asking_of(self._context.api_version)
        reserved_bytes = 0  # for copies
        is_later = False
        decompression = self._parts.decompression
        self._outstanding += 1

        def on_permissions(permissions: Sequence[Permission]) -> None:
            for one, permission in zip(held, permissions, strict=True):
                self._append_permitted(one, permission, asking)
            held.clear()
            decompression.release(reserved_bytes)
            if is_later:  # no bytes are being read, whose reader would settle it
                self._parts.appends.settle()
            self.finish_one()

        self._parts.writes.begin(
            self._transactional_id,
            producer_id,
            epoch,
            asking,
            [
                Write(h.hosted.key, (h.hosted.topic, h.hosted.index), h.batch.header.base_sequence)
                for h in held
            ],
            on_permissions,
        )
        is_later = True
        if held:  # not answered yet: what was received is overwritten when the handler returns
            reserved_bytes = self._keep(held)

    def _keep(self, held: list[_Held]) -> int:
        """Copy batches that wait, if there is room; the bytes that were reserved for it."""
        size_bytes = sum(len(one.batch.data) for one in held)
        is_reserved = self._parts.decompression.reserve(size_bytes)
        if not is_reserved:
            self._refusal = (ErrorCode.NOT_ENOUGH_REPLICAS, "too many batches wait already")
        _copy(held, is_reserved)
        return size_bytes if is_reserved else 0

    def _append_permitted(self, held: _Held, permission: Permission, asking: Asking) -> None:
        """Append a batch now that it may be, unless something has happened to the partition."""
        sent, answer = held.sent, held.sent.answer
        if permission.error_code is not ErrorCode.NONE:
            answer.error_code = int(for_producer(permission.error_code, asking))
            return
        if self._refusal is not None:
            answer.error_code, answer.error_message = int(self._refusal[0]), self._refusal[1]
            return
        now = self._find(sent.topic, sent.partition.index)
        if isinstance(now, ErrorCode):
            answer.error_code = int(now)
        elif now is not held.hosted:
            answer.error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            self._feed(now, held.batch, answer, permission.ticket)

    def finish_one(self) -> None:
        """One answer is in; with the last of them the request is answered."""
        self._outstanding -= 1
        if self._outstanding:
            return
        finish(self._context, self._acks, self._response, self._parts.metadata)


def _transaction_refusal(
    access: Access, context: RequestContext, request: ProduceRequest
) -> tuple[ErrorCode, str | None] | None:
    """Why the client may not write in a transaction; None if it may, or does not want to. What the
    batches say counts, not the request."""
    transactional_id = request.transactional_id
    if transactional_id is None:
        if _has_transactional(request):
            reason = "a batch is of a transaction, and the request names no transactional id"
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, reason
    elif access.authorizer is not None and _has_transactional(request):
        error = access.refusal(context, WRITE_TRANSACTIONAL_ID, transactional_id)
        return (error, None) if error else None
    return None


def _has_transactional(request: ProduceRequest) -> bool:
    """Whether any partition's first batch says that it is of a transaction."""
    return any(
        partition.records is not None and is_of_transaction(partition.records)
        for topic in request.topic_data
        for partition in topic.partition_data
    )


def _copy(held: list[_Held], is_reserved: bool) -> None:
    """Let batches outlive the buffer that they were received in; without room for them they are
    refused, and need no data."""
    for place, one in enumerate(held):
        kept = bytearray(one.batch.data) if is_reserved else b""
        held[place] = one._replace(batch=one.batch._replace(data=kept))
        one.sent.partition.records = None


def _is_large(error: BatchError) -> bool:
    """Whether a batch has more records than the limit that it was decompressed within."""
    return isinstance(error, DecompressionError) and error.code is ErrorCode.MESSAGE_TOO_LARGE


def _refuse(
    answer: PartitionProduceResponse, error: BatchError, hosted: HostedPartition | None = None
) -> None:
    """Put a batch's error into the answer, with the records that are to blame if that is known."""
    answer.error_code = int(error.code)
    answer.error_message = str(error)
    if hosted is None:
        return
    if error.code not in _WITHOUT_LOG_START and not isinstance(error, NotOneBatchError):
        answer.log_start_offset = hosted.log.start_offset
    if isinstance(error, RefusedRecordsError):
        answer.error_message, records = error.answer(f"{hosted.topic}-{hosted.index}")
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=words)
            for index, words in records
        ]
