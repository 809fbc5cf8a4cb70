"""Produce (key 0) v3-13: batches into logs.

Each batch passes `validate_produced` and is then its partition machine's business: fencing, the
in-sync set, idempotence, and when to answer. acks=1 is answered once the batch is durable here,
acks=-1 once it is durable on every in-sync replica, acks=0 not at all; what goes wrong with acks=0
closes the connection, the only way to be heard. Other acks are 21 INVALID_REQUIRED_ACKS.

v0-2 are advertised and not served (KAFKA-18659; see `wire.api.produce`). Topics are named up to
v12 and go by id from v13. Transactions are not offered: 42 INVALID_REQUEST. Internal topics
are the brokers' to write: 17 INVALID_TOPIC_EXCEPTION, except for Kafka's admin client, as in Kafka.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from fencepost.batch.errors import BatchError, DecompressionError
from fencepost.batch.header import BatchHeader, is_compressed
from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.validate import RefusedRecordsError, validate_produced
from fencepost.broker.cluster.cluster_view import INTERNAL_TOPICS
from fencepost.broker.cluster.leader_hints import LeaderHints
from fencepost.broker.net.registry import Pieces, handles
from fencepost.broker.net.request_context import RequestContext
from fencepost.broker.replicas.recompression import KEEP, maybe_recompress
from fencepost.broker.storage.decompression import INLINE_BYTES_MAX
from fencepost.log.config import LogConfig
from fencepost.log.descriptors import is_shortage
from fencepost.machines.partition import Produce, ProduceResult
from fencepost.runtime.replicas import HostedPartition
from fencepost.wire.api.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer

TOPIC_IDS_FROM = 13
LEADER_HINTS_FROM = 10
ZSTD_FROM = 7
INT64_MAX = (1 << 63) - 1
INT64_MIN = -(1 << 63)
ADMIN_CLIENT_ID = "__admin_client"
MAX_TOPICS_AND_PARTITIONS = 20_000
WORK_S = 10.0
"""Batches of a request that are not begun after so long are 7 REQUEST_TIMED_OUT: they come again
with the client's retry."""
RECOMPRESSION_FACTOR = 4
"""How many times as long a batch takes that is compressed anew, too."""
AT_ONCE_S = 0.002
"""How long batches are looked at before the rest of the request is done in pieces."""
PLAIN_BYTES_MAX = 2 * 1024 * 1024
"""Uncompressed batches up to this size are walked over on the event loop."""


@handles(ProduceRequest, versions="3-13", advertise_from=0, max_elements=MAX_TOPICS_AND_PARTITIONS)
def handle(context: RequestContext, request: ProduceRequest) -> Pieces | None:
    """Feed every partition's machine; answer when all of them have answered."""
    job = _ProduceJob(context, request)
    left = job.take_small(job.batches(request))
    if left:
        return job.take_in_pieces(left)
    job.finish_one()
    return None


@dataclass(slots=True)
class _Batch:
    """What a request has for one partition, and the place of the answer."""

    topic: TopicProduceData
    index: int
    records: Buffer | None
    answer: PartitionProduceResponse


@dataclass(frozen=True, slots=True)
class _Gate:
    """What a batch must pass; it needs nothing of the node, so that any thread can do it."""

    config: LogConfig
    allow_zstd: bool
    now_ms: int

    def pass_(self, records: Buffer, max_bytes: int) -> tuple[Buffer, BatchHeader]:
        """The batch as it is to be appended. BatchError, as `validate_produced` raises it."""
        config = self.config
        earliest_ms, latest_ms = _timestamp_bounds(config, self.now_ms)
        header = validate_produced(
            records,
            max_batch_bytes=config.max_message_bytes,
            allow_zstd=self.allow_zstd,
            key_required=config.is_compacted,
            max_decompressed_bytes=max_bytes,
            timestamp_min_ms=earliest_ms,
            timestamp_max_ms=latest_ms,
        )
        if header.is_transactional:
            raise BatchError(ErrorCode.INVALID_REQUEST, "transactions are not offered")
        records, header = maybe_recompress(records, header, config)
        _check_segment_size(records, config)
        return records, header


class _ProduceJob:
    """One request on its way: the response as it fills, and how many answers it waits for."""

    __slots__ = (
        "_acks",
        "_began",
        "_context",
        "_deadline_ms",
        "_now_ms",
        "_outstanding",
        "_refusal",
        "_response",
    )

    def __init__(self, context: RequestContext, request: ProduceRequest) -> None:
        self._context = context
        self._acks = request.acks
        self._began = perf_counter()
        self._now_ms = context.node.now_ms()
        self._deadline_ms = self._now_ms + max(request.timeout_ms, 0)
        self._response = ProduceResponse()
        self._outstanding = 1  # the request itself, until all of it is taken
        self._refusal: tuple[ErrorCode, str] | None = None
        if request.acks not in (-1, 0, 1):
            self._refusal = (
                ErrorCode.INVALID_REQUIRED_ACKS,
                f"acks is {request.acks}, allowed are -1, 0 and 1",
            )
        elif request.transactional_id is not None:
            self._refusal = (ErrorCode.INVALID_REQUEST, "transactions are not offered")

    def batches(self, request: ProduceRequest) -> deque[_Batch]:
        """What is to be taken, in order; the answers are in the response already."""
        batches: deque[_Batch] = deque()
        for topic in request.topic_data:
            answered = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
            self._response.responses.append(answered)
            for partition in topic.partition_data:
                answer = PartitionProduceResponse(index=partition.index, base_offset=-1)
                answered.partition_responses.append(answer)
                batches.append(_Batch(topic, partition.index, partition.records, answer))
        return batches

    def take_small(self, batches: deque[_Batch]) -> deque[_Batch]:
        """Take batches as long as that is quick; those that are left."""
        while batches and perf_counter() - self._began < AT_ONCE_S:
            if not self._take(batches[0]):
                break
            batches.popleft()
        return batches

    def take_in_pieces(self, batches: deque[_Batch]) -> Pieces:
        """Take the others one by one, large ones in a thread; copies, as the buffer goes on."""
        decompression = self._context.node.decompression
        size_bytes = sum(len(one.records) for one in batches if one.records is not None)
        is_reserved = decompression.reserve(size_bytes)
        if not is_reserved:
            self._refusal = (ErrorCode.REQUEST_TIMED_OUT, "too many large batches wait already")
        try:
            for batch in batches if is_reserved else ():
                batch.records = None if batch.records is None else bytearray(batch.records)
            while batches:
                batch = batches.popleft()
                if not self._take(batch):
                    yield from self._take_large(batch)
                yield None
        finally:
            if is_reserved:
                decompression.release(size_bytes)
        self.finish_one()
        return None

    def _take(self, batch: _Batch) -> bool:
        """Feed a batch's machine, or refuse the batch; whether it was small enough for that."""
        hosted = self._admit(batch)
        if hosted is None:
            return True
        records = batch.records
        assert records is not None, "it was admitted"
        gate = self._gate(hosted)
        recompressed = hosted.log.config.compression_type != KEEP
        max_bytes = INLINE_BYTES_MAX // RECOMPRESSION_FACTOR if recompressed else INLINE_BYTES_MAX
        if len(records) > (max_bytes if is_compressed(records) else PLAIN_BYTES_MAX):
            return False
        try:
            passed = gate.pass_(records, max_bytes)
        except BatchError as error:
            if _is_large(error):
                return False
            _refuse(batch.answer, error)
            return True
        self._feed(hosted, batch, *passed)
        return True

    def _take_large(self, batch: _Batch) -> Pieces:
        """The same for a batch that a thread looks at."""
        hosted = self._admit(batch)
        if hosted is None:
            return None
        records = batch.records
        assert records is not None, "it was admitted"
        gate = self._gate(hosted)
        try:
            passed = yield from self._context.node.decompression.run(partial(gate.pass_, records))
        except BatchError as error:
            _refuse(batch.answer, error)
            return None
        now = self._find(batch.topic, batch.index)  # it may have been deleted meanwhile
        if isinstance(now, ErrorCode):
            batch.answer.error_code = int(now)
        elif now is not hosted:  # another topic of that name, whose configs say something else
            batch.answer.error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            self._feed(hosted, batch, *passed)
        return None

    def _admit(self, batch: _Batch) -> HostedPartition | None:
        """The partition that the batch is for; None if it is refused before it is looked at."""
        answer = batch.answer
        if self._refusal is not None:
            answer.error_code = int(self._refusal[0])
            answer.error_message = self._refusal[1]
            return None
        if perf_counter() - self._began > WORK_S:
            answer.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
            answer.error_message = f"the request has taken {WORK_S} s already"
            return None
        hosted = self._find(batch.topic, batch.index)
        if isinstance(hosted, ErrorCode):
            answer.error_code = int(hosted)
            return None
        if batch.records is None:
            _refuse(answer, BatchError(ErrorCode.INVALID_RECORD, "there is no record batch"))
            return None
        return hosted

    def _gate(self, hosted: HostedPartition) -> _Gate:
        return _Gate(hosted.log.config, self._context.api_version >= ZSTD_FROM, self._now_ms)

    def _feed(
        self, hosted: HostedPartition, batch: _Batch, records: Buffer, header: BatchHeader
    ) -> None:
        answer = batch.answer
        if not self._is_prepared(hosted, header):
            answer.error_code = int(ErrorCode.KAFKA_STORAGE_ERROR)
            answer.error_message = "the broker has no file descriptor for it now (ulimit -n)"
            return
        self._outstanding += 1

        def on_result(result: ProduceResult) -> None:
            answer.error_code = int(result.error_code)
            answer.base_offset = result.base_offset
            answer.log_append_time_ms = result.log_append_time_ms
            answer.log_start_offset = result.log_start_offset
            self.finish_one()

        self._context.node.driver.feed(
            hosted.key,
            Produce(RecordBatch(header, records), self._acks, on_result, self._deadline_ms),
        )

    def _find(self, topic: TopicProduceData, index: int) -> HostedPartition | ErrorCode:
        replicas = self._context.node.replicas
        if self._context.api_version >= TOPIC_IDS_FROM:
            hosted = replicas.by_id(topic.topic_id, index)
        else:
            hosted = replicas.get(topic.name, index)
        if (
            not isinstance(hosted, ErrorCode)
            and hosted.topic in INTERNAL_TOPICS
            and self._context.client_id != ADMIN_CLIENT_ID
        ):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        return hosted

    def _is_prepared(self, hosted: HostedPartition, header: BatchHeader) -> bool:
        """Whether the files that the append needs are open; not if there is no descriptor.

        Whatever else is wrong with them the append will tell.
        """
        if not hosted.machine.is_leader:
            return True
        try:
            with self._context.node.storage.descriptors.without_waiting():
                hosted.log.prepare_append(header, self._now_ms)
        except OSError as error:
            if is_shortage(error):
                self._context.node.storage.shortages.note(f"appending to {hosted.key}: {error}")
                return False
        return True

    def finish_one(self) -> None:
        """One answer is in; with the last of them the request is answered."""
        self._outstanding -= 1
        if self._outstanding:
            return
        context = self._context
        if self._acks == 0:
            self._finish_unacknowledged()
            return
        if context.api_version >= LEADER_HINTS_FROM:
            self._add_leader_hints()
        context.reply(self._response)

    def _finish_unacknowledged(self) -> None:
        """acks=0 has no response, so an error can only be told by hanging up."""
        for topic in self._response.responses:
            for answer in topic.partition_responses:
                if answer.error_code:
                    error = ErrorCode(answer.error_code)
                    name = topic.name or str(topic.topic_id)
                    self._context.close(
                        f"Produce with acks=0 to {name}-{answer.index} failed: {error.name}"
                        + (f" ({answer.error_message})" if answer.error_message else "")
                    )
                    return
        self._context.no_reply()

    def _add_leader_hints(self) -> None:
        """Say who leads, where we do not (KIP-951)."""
        hints: LeaderHints | None = None
        for topic in self._response.responses:
            for answer in topic.partition_responses:
                if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    continue
                if hints is None:
                    hints = LeaderHints(self._context.node.image, self._context.listener_name)
                leader = hints.leader_of(topic.name, topic.topic_id, answer.index)
                if leader is not None:
                    answer.current_leader = LeaderIdAndEpoch(
                        leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                    )
        if hints is not None:
            self._response.node_endpoints = [
                NodeEndpoint(node_id=n.node_id, host=n.host, port=n.port, rack=n.rack)
                for n in hints.endpoints()
            ]


def _timestamp_bounds(config: LogConfig, now_ms: int) -> tuple[int, int]:
    """The earliest and latest timestamp a record may have; none where the broker gives them."""
    if config.is_log_append_time:
        return INT64_MIN, INT64_MAX
    latest_ms = now_ms + config.message_timestamp_after_max_ms
    return (
        now_ms - config.message_timestamp_before_max_ms,
        latest_ms if latest_ms < INT64_MAX else INT64_MAX,
    )


def _is_large(error: BatchError) -> bool:
    """Whether a batch has more records than the limit that it was decompressed within."""
    return isinstance(error, DecompressionError) and error.code is ErrorCode.MESSAGE_TOO_LARGE


def _check_segment_size(records: Buffer, config: LogConfig) -> None:
    """A batch that no segment has room for is told so, and not to be split as a large message."""
    if len(records) > config.roll_bytes:
        raise BatchError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {len(records)} bytes, a segment {config.roll_bytes} at most",
        )


def _refuse(answer: PartitionProduceResponse, error: BatchError) -> None:
    """Put a batch's error into the answer, with the records that are to blame if that is known."""
    answer.error_code = int(error.code)
    answer.error_message = str(error)
    if isinstance(error, RefusedRecordsError):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=words)
            for index, words in error.records
        ]
