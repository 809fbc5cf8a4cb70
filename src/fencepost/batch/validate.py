"""Whether a producer's bytes may enter a log: the one gate for records from outside.

The checks follow Kafka's (`LogValidator`, `UnifiedLog.analyzeAndValidateRecords`), with its error
codes, and are stricter where Kafka would let bytes in that it cannot read back:

| what is wrong | code |
|--|--|
| not exactly one whole batch | INVALID_RECORD |
| a header no batch can have, or a CRC that does not hold | CORRUPT_MESSAGE |
| format v0 or v1 | UNSUPPORTED_FOR_MESSAGE_FORMAT |
| larger than the topic allows, or than the decompression limit when inflated | MESSAGE_TOO_LARGE |
| codec 5, 6 or 7 | UNSUPPORTED_COMPRESSION_TYPE |
| a control batch; a delete horizon; numbers or records that do not fit together | INVALID_RECORD |
| a record without key in a compacted topic | INVALID_RECORD |
| log-append time from a producer; timestamps out of bounds or beyond 64 bits | INVALID_TIMESTAMP |

A block that cannot be decompressed under a sound CRC is the producer's doing, so INVALID_RECORD:
CORRUPT_MESSAGE would make it send the same bytes again. Kafka does not check offset deltas in
uncompressed batches; here they must count up by one, or a reader would see offsets twice.

Clients have been known to leave `max_timestamp` unset. Like Kafka the gate puts it right, because
time look-ups depend on it.
"""

from __future__ import annotations

from fencepost.batch.compression import DECOMPRESSED_BYTES_MAX, codec_of
from fencepost.batch.errors import BatchError
from fencepost.batch.header import (
    HEADER_BYTES,
    MAGIC_AT,
    BatchHeader,
    check_magic,
    require_crc,
    stamp_max_timestamp,
    unpack_header,
)
from fencepost.batch.records import read_payload
from fencepost.batch.walk import INT64_MAX, INT64_MIN, Rules, walk
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer


def validate_produced(
    buf: Buffer,
    *,
    max_batch_bytes: int,
    key_required: bool = False,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
    timestamp_min_ms: int = INT64_MIN,
    timestamp_max_ms: int = INT64_MAX,
) -> BatchHeader:
    """The header of the one batch in `buf`, if it may be appended.

    `max_batch_bytes` bounds the batch as it came, `max_decompressed_bytes` its records inflated.
    `key_required` is for compacted topics. The timestamp bounds (inclusive, ms) come of
    message.timestamp.before.max.ms and .after.max.ms, and do not apply to records without one (-1);
    leave them open for topics with log-append time.

    A wrong `max_timestamp` is put right in `buf` and in the header returned, if `buf` is writable.
    Raises BatchError otherwise, as the module's table says.
    """
    header = _check_frame(buf, max_batch_bytes)
    require_crc(buf, 0, header)
    _check_attributes(header)
    _check_numbers(header)
    try:
        payload = read_payload(buf, 0, header, max_decompressed_bytes)
        max_timestamp = walk(
            payload,
            Rules(
                header.records_count,
                header.base_timestamp,
                key_required,
                timestamp_min_ms,
                timestamp_max_ms,
            ),
        )
    except BatchError as error:
        if error.code is ErrorCode.CORRUPT_MESSAGE:
            raise BatchError(ErrorCode.INVALID_RECORD, error.message) from None
        raise
    if max_timestamp == header.max_timestamp:
        return header
    return _mend_max_timestamp(buf, header, max_timestamp)


def _check_frame(buf: Buffer, max_batch_bytes: int) -> BatchHeader:
    if len(buf) == 0:
        raise BatchError(ErrorCode.INVALID_RECORD, "there is no record batch")
    if len(buf) < HEADER_BYTES:
        if len(buf) > MAGIC_AT:
            check_magic(buf[MAGIC_AT])
        raise BatchError(ErrorCode.INVALID_RECORD, f"{len(buf)} bytes are no whole batch header")
    header = unpack_header(buf)
    if header.size_bytes > max_batch_bytes:
        raise BatchError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {header.size_bytes} bytes, the topic allows {max_batch_bytes}",
        )
    if header.size_bytes > len(buf):
        flaw = f"the batch of {header.size_bytes} bytes is cut after {len(buf)}"
    elif header.size_bytes < len(buf):
        flaw = (
            f"{len(buf) - header.size_bytes} bytes follow the batch: "
            "a partition takes exactly one batch per request"
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
