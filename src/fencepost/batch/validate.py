"""Whether a producer's bytes may enter a log: the one gate for records from outside.

The checks follow Kafka's (`ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`,
`LogValidator`), in their order and with their error codes, and are stricter where Kafka would let
bytes in that it cannot read back:

| what is wrong | code |
|--|--|
| not exactly one whole batch; format v0 or v1 | INVALID_RECORD |
| zstd in a request of before there was zstd | UNSUPPORTED_COMPRESSION_TYPE |
| a base offset that is not 0 | INVALID_RECORD |
| larger than the topic allows, or than the decompression limit when inflated | MESSAGE_TOO_LARGE |
| a header no batch can have, or a CRC that does not hold | CORRUPT_MESSAGE |
| codec 5, 6 or 7 | UNSUPPORTED_COMPRESSION_TYPE |
| a control batch; a delete horizon; numbers or records that do not fit together | INVALID_RECORD |
| records without key in a compacted topic | INVALID_RECORD, and which |
| timestamps out of bounds | INVALID_TIMESTAMP, and which |
| log-append time from a producer; timestamps beyond 64 bits | INVALID_TIMESTAMP |

Records that are sound but not welcome (no key, a time out of bounds) are told one by one
(`RefusedRecordsError`), as the answer to a Produce lists them from v8 on; one bad time makes the
whole INVALID_TIMESTAMP.

A block that cannot be decompressed under a sound CRC is the producer's doing, so INVALID_RECORD:
CORRUPT_MESSAGE would make it send the same bytes again. Kafka does not check offset deltas in
uncompressed batches; here they must count up by one, or a reader would see offsets twice. Kafka
undoes compression too, whatever the topic's settings, because the greatest timestamp has to be put
right: so nothing is saved by looking at the header alone, and every record is walked over.

Clients have been known to leave `max_timestamp` unset. Like Kafka the gate puts it right, because
time look-ups depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.batch.compression import DECOMPRESSED_BYTES_MAX, Codec, codec_of
from fencepost.batch.errors import BatchError
from fencepost.batch.header import (
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    require_crc,
    stamp_max_timestamp,
    unpack_header,
)
from fencepost.batch.records import read_payload
from fencepost.batch.walk import (
    INT64_MAX,
    INT64_MIN,
    Flaw,
    RecordError,
    Rules,
    find_refused,
    walk,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer


class RefusedRecordsError(BatchError):
    """A sound batch with records that the topic does not take.

    `records` has the position of each in the batch, from 0, and why. Where there are very many, it
    has the first thousand of those found in a stretch of ten thousand records.
    """

    def __init__(
        self, code: ErrorCode, message: str, records: Sequence[tuple[int, str]] = ()
    ) -> None:
        super().__init__(code, message)
        self.args = (code, message, records)
        self.records = tuple(records)


def validate_produced(
    buf: Buffer,
    *,
    max_batch_bytes: int,
    allow_zstd: bool = True,
    key_required: bool = False,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
    timestamp_min_ms: int = INT64_MIN,
    timestamp_max_ms: int = INT64_MAX,
) -> BatchHeader:
    """The header of the one batch in `buf`, if it may be appended.

    `max_batch_bytes` bounds the batch as it came, `max_decompressed_bytes` its records inflated.
    `allow_zstd` is for Produce v7 and later (KIP-110), `key_required` for compacted topics. The
    timestamp bounds (inclusive, ms) come of message.timestamp.before.max.ms and .after.max.ms, and
    do not apply to records without one (-1); leave them open for topics with log-append time.

    A wrong `max_timestamp` is put right in `buf` and in the header returned, if `buf` is writable.
    Raises BatchError otherwise, as the module's table says.
    """
    header = _check_frame(buf, max_batch_bytes, allow_zstd)
    require_crc(buf, 0, header)
    _check_numbers(header)
    _check_attributes(header)
    rules = Rules(
        header.records_count,
        header.base_timestamp,
        key_required,
        timestamp_min_ms,
        timestamp_max_ms,
    )
    try:
        payload = read_payload(buf, 0, header, max_decompressed_bytes)
        max_timestamp = walk(payload, rules)
    except RecordError as error:
        if error.flaw in (Flaw.NO_KEY, Flaw.TIMESTAMP_BOUNDS):
            raise _refusal(find_refused(payload, rules, error.report)) from None
        raise
    except BatchError as error:
        if error.code is ErrorCode.CORRUPT_MESSAGE:
            raise BatchError(ErrorCode.INVALID_RECORD, error.message) from None
        raise
    if max_timestamp == header.max_timestamp:
        return header
    return _mend_max_timestamp(buf, header, max_timestamp)


def _refusal(refused: Sequence[RecordError]) -> RefusedRecordsError:
    is_late = any(one.code is ErrorCode.INVALID_TIMESTAMP for one in refused)
    return RefusedRecordsError(
        ErrorCode.INVALID_TIMESTAMP if is_late else ErrorCode.INVALID_RECORD,
        f"the topic does not take {len(refused)} records of the batch: {refused[0].message}",
        [(one.report[1], one.words) for one in refused],
    )


def _check_frame(buf: Buffer, max_batch_bytes: int, allow_zstd: bool) -> BatchHeader:
    if len(buf) == 0:
        raise BatchError(ErrorCode.INVALID_RECORD, "there is no record batch")
    if len(buf) < HEADER_BYTES and (len(buf) <= MAGIC_AT or buf[MAGIC_AT] == MAGIC):
        raise BatchError(ErrorCode.INVALID_RECORD, f"{len(buf)} bytes are no whole batch header")
    try:
        header = unpack_header(buf)
    except BatchError as error:
        if error.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
            raise BatchError(ErrorCode.INVALID_RECORD, error.message) from None
        raise
    size_bytes = header.size_bytes
    if size_bytes > len(buf):
        flaw = f"the batch of {size_bytes} bytes is cut after {len(buf)}"
    elif size_bytes < len(buf):
        flaw = (
            f"{len(buf) - size_bytes} bytes follow the batch: "
            "a partition takes exactly one batch per request"
        )
    elif not allow_zstd and header.compression == Codec.ZSTD:
        raise BatchError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "the request's version is older than zstd"
        )
    elif header.base_offset != 0:
        flaw = f"the base offset is {header.base_offset}; a producer's is 0"
    elif size_bytes > max_batch_bytes:
        raise BatchError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size_bytes} bytes, the topic allows {max_batch_bytes}",
        )
    else:
        return header
    raise BatchError(ErrorCode.INVALID_RECORD, flaw)


def _check_attributes(header: BatchHeader) -> None:
    codec_of(header.compression)
    if header.is_log_append_time:
        raise BatchError(
            ErrorCode.INVALID_TIMESTAMP, "a producer cannot say that the broker gave the time"
        )
    if header.is_control:
        flaw = "clients cannot write control records"
    elif header.has_delete_horizon:
        flaw = "clients cannot set a delete horizon"
    elif header.is_transactional and not header.has_producer_id:
        flaw = "transactional records need a producer id"
    else:
        return
    raise BatchError(ErrorCode.INVALID_RECORD, flaw)


def _check_numbers(header: BatchHeader) -> None:
    if header.records_count <= 0:
        flaw = f"the batch claims {header.records_count} records"
    elif header.last_offset_delta != header.records_count - 1:
        flaw = (
            f"last offset delta {header.last_offset_delta} does not fit "
            f"{header.records_count} records"
        )
    elif header.producer_id < -1:
        flaw = f"producer id is {header.producer_id}"
    elif header.has_producer_id and header.producer_epoch < 0:
        flaw = f"producer {header.producer_id} has epoch {header.producer_epoch}"
    elif header.has_producer_id and header.base_sequence < 0:
        flaw = f"producer {header.producer_id} has base sequence {header.base_sequence}"
    else:
        return
    raise BatchError(ErrorCode.INVALID_RECORD, flaw)


def _mend_max_timestamp(buf: Buffer, header: BatchHeader, max_timestamp: int) -> BatchHeader:
    if isinstance(buf, bytes) or memoryview(buf).readonly:
        raise BatchError(
            ErrorCode.INVALID_TIMESTAMP,
            f"max timestamp is {header.max_timestamp}, the records' greatest {max_timestamp}",
        )
    stamp_max_timestamp(buf, 0, max_timestamp)
    return unpack_header(buf)
