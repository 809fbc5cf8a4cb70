"""A producer's bytes become a batch that may be appended: the one gate for records from outside.

`prepare_produced` takes the bytes of one partition of a Produce request and gives back the batch as
the topic stores it, its header in hand: checked, compressed again if `compression.type` says so.
What is left to the append is what only the log knows: base offset, leader epoch and, with
LogAppendTime, the time. Nothing here needs the node, so any thread can do it.

The checks follow Kafka's (`ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`,
`LogValidator`), in their order and with their error codes, and are stricter where Kafka would let
bytes in that it cannot read back:

| what is wrong | code |
|--|--|
| not exactly one whole batch; format v0 or v1 | INVALID_RECORD |
| zstd in a request of before there was zstd | UNSUPPORTED_COMPRESSION_TYPE |
| a base offset that is not 0 | INVALID_RECORD |
| larger than the topic allows, or than the decompression limit when inflated | MESSAGE_TOO_LARGE |
| a header no batch can have, or a CRC mismatch | CORRUPT_MESSAGE |
| numbers that do not fit together | INVALID_RECORD |
| codec 5, 6 or 7 | UNSUPPORTED_COMPRESSION_TYPE |
| log-append time from a producer; timestamps beyond 64 bits | INVALID_TIMESTAMP |
| a control batch; a delete horizon; a transaction without a producer id | INVALID_RECORD |
| a block that cannot be decompressed; records that are not sound | INVALID_RECORD |
| a record of a compressed batch that is larger than the topic allows | INVALID_RECORD |
| an lz4 frame whose blocks depend on each other: no Java client reads it | INVALID_RECORD |
| records without key in a compacted topic | INVALID_RECORD, and which |
| timestamps out of bounds | INVALID_TIMESTAMP, and which |
| compressed again, larger than the topic allows | MESSAGE_TOO_LARGE |
| larger than a segment | RECORD_LIST_TOO_LARGE, which tells clients not to split it |

Records that are sound but not welcome (no key, a time out of bounds) are told one by one
(`RefusedRecordsError`), as the answer to a Produce lists them from v8 on; one bad time makes the
whole INVALID_TIMESTAMP.

A block that cannot be decompressed under a sound CRC is the producer's doing, so INVALID_RECORD:
CORRUPT_MESSAGE would make it send the same bytes again. Kafka does not check offset deltas in
uncompressed batches; here they must count up by one, or a reader would see offsets twice. Kafka
decompresses too, whatever the topic's settings, because the greatest timestamp has to be put
right: so nothing is saved by looking at the header alone, and every record is walked over.

Clients have been known to leave `max_timestamp` unset. Like Kafka the gate puts it right, because
time look-ups depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from fencepost.batch.compression import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    check_is_portable,
    codec_of,
    compress,
)
from fencepost.batch.errors import BatchError
from fencepost.batch.header import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    pack_header,
    require_crc,
    stamp_crc,
    stamp_max_timestamp,
    unpack_header,
)
from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import read_payload
from fencepost.batch.walk import (
    INT64_MAX,
    INT64_MIN,
    Reason,
    RecordError,
    Rules,
    find_refused,
    walk,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer

UNBOUNDED_MS: Final = 1 << 64
"""Farther from the broker's clock than any timestamp can be."""


class ProduceRules(NamedTuple):
    """What a topic's configuration says about the batches that producers send.

    `max_batch_bytes` (max.message.bytes) counts the batch as it came, and as it is stored. `codec`
    is what the topic stores (compression.type), None what producers send, and `level` its level,
    None for the library's own. `key_required` is for compacted topics. Records' timestamps may lie
    so much before and behind the broker's clock (message.timestamp.before.max.ms, .after.max.ms),
    in ms, unless they have none (-1); topics with LogAppendTime leave that open. A record of a
    compressed batch may have `max_record_bytes` behind its length (max.decompressed.message.bytes).
    """

    max_batch_bytes: int
    segment_bytes: int = INT64_MAX
    key_required: bool = False
    timestamp_before_max_ms: int = UNBOUNDED_MS
    timestamp_after_max_ms: int = UNBOUNDED_MS
    codec: Codec | None = None
    level: int | None = None
    max_record_bytes: int = INT64_MAX


class NotOneBatchError(BatchError):
    """A partition's data are not one whole batch that the request's version may have."""


class RefusedRecordsError(BatchError):
    """A sound batch with records that the topic does not take.

    `refused` are these records. Where there are very many, it has the first thousand of those found
    in a stretch of ten thousand records. `earliest_ms` and `latest_ms` are the bounds of time.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        refused: Sequence[RecordError] = (),
        earliest_ms: int = 0,
        latest_ms: int = 0,
    ) -> None:
        super().__init__(code, message)
        self.args = (code, message, refused, earliest_ms, latest_ms)
        self.refused = tuple(refused)
        self.earliest_ms = earliest_ms
        self.latest_ms = latest_ms

    def answer(self, partition: str) -> tuple[str, list[tuple[int, str]]]:
        """What a producer receives: of the whole, and of each record by its place in the batch.

        In the shape of Kafka's messages; `partition` is named as `topic-0` is.
        """
        records = [(one.report[1], self._reason(one, partition)) for one in self.refused]
        if self.code is ErrorCode.INVALID_TIMESTAMP:
            return "One or more records have been rejected due to invalid timestamp", records
        first = ", ".join(
            f"RecordError(batchIndex={index}, message='{reason}')" for index, reason in records[:3]
        )
        whole = (
            f"One or more records have been rejected due to {len(records)} record errors in total,"
            f" and only showing the first three errors at most: [{first}]"
        )
        return whole, records

    def _reason(self, record: RecordError, partition: str) -> str:
        _, index, _, timestamp_ms = record.report
        if record.reason is Reason.NO_KEY:
            return (
                f"Compacted topic cannot accept message without key in topic partition {partition}"
            )
        return (
            f"Timestamp {timestamp_ms} of message with offset {index} is out of range. The"
            f" timestamp should be within [{self.earliest_ms}, {self.latest_ms}]"
        )


def prepare_produced(
    data: Buffer,
    rules: ProduceRules,
    wall_ms: int = 0,
    *,
    allow_zstd: bool = True,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> RecordBatch:
    """The one batch in `data`, ready to be appended to a topic with these rules.

    `wall_ms` is the time of day that timestamps are judged by; `allow_zstd` is for Produce v7 and
    later (KIP-110); `max_decompressed_bytes` bounds the records inflated.

    A wrong `max_timestamp` is put right in `data`, which must be writable for that; a batch that is
    compressed again has data of its own. Raises BatchError otherwise, as the module's table says;
    DecompressionError MESSAGE_TOO_LARGE for records that grow beyond `max_decompressed_bytes`.
    """
    header = _check_frame(data, rules.max_batch_bytes, allow_zstd)
    require_crc(data, 0, header)
    _check_numbers(header)
    _check_attributes(header)
    earliest_ms = wall_ms - rules.timestamp_before_max_ms
    latest_ms = wall_ms + rules.timestamp_after_max_ms
    wanted = Rules(
        header.records_count,
        header.base_timestamp,
        rules.key_required,
        earliest_ms if earliest_ms > INT64_MIN else INT64_MIN,
        latest_ms if latest_ms < INT64_MAX else INT64_MAX,
        INT64_MAX if header.compression == Codec.NONE else rules.max_record_bytes,
    )
    payload, max_timestamp = _check_records(data, header, wanted, max_decompressed_bytes)
    if max_timestamp != header.max_timestamp:
        header = _correct_max_timestamp(data, header, max_timestamp)
    batch = RecordBatch(header, data)
    if rules.codec is not None and rules.codec != header.compression:
        batch = _recompress(header, payload, rules, rules.codec)
    if len(batch.data) > rules.segment_bytes:
        raise BatchError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {len(batch.data)} bytes, a segment {rules.segment_bytes} at most",
        )
    return batch


def _check_frame(data: Buffer, max_batch_bytes: int, allow_zstd: bool) -> BatchHeader:
    if len(data) == 0:
        raise NotOneBatchError(ErrorCode.INVALID_RECORD, "there is no record batch")
    if len(data) < HEADER_BYTES and (len(data) <= MAGIC_AT or data[MAGIC_AT] == MAGIC):
        raise NotOneBatchError(
            ErrorCode.INVALID_RECORD, f"{len(data)} bytes are no whole batch header"
        )
    try:
        header = unpack_header(data)
    except BatchError as error:
        if error.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
            raise NotOneBatchError(ErrorCode.INVALID_RECORD, error.message) from None
        raise
    size_bytes = header.size_bytes
    if size_bytes > len(data):
        raise NotOneBatchError(
            ErrorCode.INVALID_RECORD, f"the batch of {size_bytes} bytes is cut after {len(data)}"
        )
    if not allow_zstd and header.compression == Codec.ZSTD:
        raise NotOneBatchError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "the request's version is older than zstd"
        )
    if size_bytes < len(data):
        raise NotOneBatchError(
            ErrorCode.INVALID_RECORD,
            f"{len(data) - size_bytes} bytes follow the batch: "
            "a partition takes exactly one batch per request",
        )
    if header.base_offset != 0:
        raise BatchError(
            ErrorCode.INVALID_RECORD, f"the base offset is {header.base_offset}; a producer's is 0"
        )
    if size_bytes > max_batch_bytes:
        raise BatchError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size_bytes} bytes, the topic allows {max_batch_bytes}",
        )
    return header


def _check_numbers(header: BatchHeader) -> None:
    if header.records_count <= 0:
        reason = f"the batch claims {header.records_count} records"
    elif header.last_offset_delta != header.records_count - 1:
        reason = (
            f"last offset delta {header.last_offset_delta} does not fit "
            f"{header.records_count} records"
        )
    elif header.producer_id == -1:
        return
    elif header.producer_id < -1:
        reason = f"producer id is {header.producer_id}"
    elif header.producer_epoch < 0:
        reason = f"producer {header.producer_id} has epoch {header.producer_epoch}"
    elif header.base_sequence < 0:
        reason = f"producer {header.producer_id} has base sequence {header.base_sequence}"
    else:
        return
    raise BatchError(ErrorCode.INVALID_RECORD, reason)


def _check_attributes(header: BatchHeader) -> None:
    if header.attributes == Codec.NONE:
        return
    codec_of(header.compression)
    if header.is_log_append_time:
        raise BatchError(
            ErrorCode.INVALID_TIMESTAMP, "a producer cannot say that the broker gave the time"
        )
    if header.is_control:
        reason = "clients cannot write control records"
    elif header.has_delete_horizon:
        reason = "clients cannot set a delete horizon"
    elif header.is_transactional and not header.has_producer_id:
        reason = "transactional records need a producer id"
    else:
        return
    raise BatchError(ErrorCode.INVALID_RECORD, reason)


def _check_records(
    data: Buffer, header: BatchHeader, wanted: Rules, max_decompressed_bytes: int
) -> tuple[Buffer, int]:
    """The batch's records, uncompressed, and the greatest of their timestamps."""
    payload: Buffer = b""
    try:
        if header.compression == Codec.LZ4:
            check_is_portable(memoryview(data)[HEADER_BYTES:])
        payload = read_payload(data, 0, header, max_decompressed_bytes)
        return payload, walk(payload, wanted)
    except RecordError as error:
        if error.reason in (Reason.NO_KEY, Reason.TIMESTAMP_BOUNDS):
            raise _refusal(find_refused(payload, wanted, error.report), wanted) from None
        raise
    except BatchError as error:
        if error.code is ErrorCode.CORRUPT_MESSAGE:
            raise BatchError(ErrorCode.INVALID_RECORD, error.message) from None
        raise


def _refusal(refused: Sequence[RecordError], wanted: Rules) -> RefusedRecordsError:
    is_late = any(one.code is ErrorCode.INVALID_TIMESTAMP for one in refused)
    return RefusedRecordsError(
        ErrorCode.INVALID_TIMESTAMP if is_late else ErrorCode.INVALID_RECORD,
        f"the topic does not take {len(refused)} records of the batch: {refused[0].message}",
        refused,
        wanted.timestamp_min_ms,
        wanted.timestamp_max_ms,
    )


def _correct_max_timestamp(data: Buffer, header: BatchHeader, max_timestamp: int) -> BatchHeader:
    if isinstance(data, bytes) or memoryview(data).readonly:
        raise BatchError(
            ErrorCode.INVALID_TIMESTAMP,
            f"max timestamp is {header.max_timestamp}, the records' greatest {max_timestamp}",
        )
    stamp_max_timestamp(data, 0, max_timestamp)
    return unpack_header(data)


def _recompress(
    header: BatchHeader, payload: Buffer, rules: ProduceRules, codec: Codec
) -> RecordBatch:
    """The batch with another codec; all of its header stays but length, codec and CRC."""
    block = compress(codec, payload, rules.level)
    size_bytes = HEADER_BYTES + len(block)
    if size_bytes > rules.max_batch_bytes:
        kind = "uncompressed" if codec is Codec.NONE else f"compressed as {codec.name.lower()}"
        raise BatchError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{kind}, as the topic stores it, the batch has {size_bytes} bytes, "
            f"the topic allows {rules.max_batch_bytes}",
        )
    made = bytearray(size_bytes)
    made[HEADER_BYTES:] = block
    changed = header._replace(
        batch_length=size_bytes - LENGTH_OVERHEAD_BYTES,
        attributes=(header.attributes & ~CODEC_MASK) | codec,
    )
    pack_header(made, changed)
    stamp_crc(made)
    return RecordBatch(unpack_header(made), made)
