"""Messages: what logs and clients had before record batches (formats v0 and v1).

A message set is messages one behind the other (big-endian; Kafka's `LegacyRecord`, KIP-31, KIP-32):

    0  offset      int64   of the message; of a compressed one, of the last message in it
    8  length      int32   bytes after this field
    12 crc         uint32  zlib's CRC-32 of everything from byte 16 on
    16 magic       int8    0 or 1
    17 attributes  int8    bits 0-2: codec, never zstd; bit 3 (v1): the broker's clock gave the time
    18 timestamp   int64   ms, -1 for none; v1 only
       key length  int32   -1 for null, and key
       value length int32  likewise, and value

A compressed message has a message set as its value, whose messages are not compressed themselves.
Offsets in it are those of the log in v0, so that a broker had to compress again to give them; in v1
they count up from 0, and the log's follow from that of the message around them, which is that of
the last (0 there means, from producers that left it so, that they hold as they are). With the
broker's time the outer timestamp goes for all, else each has its own.

Kafka's writers of lz4 made a wrong header checksum in v0 (KAFKA-3160), and its readers never look
at that; in v1 it is right and checked. There are no headers, producers, leader epochs, transactions
or control records.

Where Kafka looks away, this reader does not: lengths below -1, bytes behind a value, an inner
message that is cut or whose CRC does not match. A wrong number is CORRUPT_MESSAGE; a message that
no producer may write (compressed twice, nothing in it, offsets that cannot be) INVALID_RECORD, as
in Kafka.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from struct import Struct, pack_into
from zlib import crc32

from fencepost.batch.compression import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    break_lz4_checksum,
    codec_of,
    compress,
    correct_lz4_checksum,
    decompress,
)
from fencepost.batch.errors import BatchError
from fencepost.batch.header import (
    CODEC_MASK,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC_AT,
    MESSAGE_CRC_AT,
    MESSAGE_LENGTHS_MIN,
    MESSAGE_TIMESTAMP_AT,
    NO_TIMESTAMP,
    OFFSET_MAX,
    BatchHeader,
)
from fencepost.batch.record import (
    BATCH_BYTES_MAX,
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_TYPE,
    Record,
)
from fencepost.batch.walk import INT64_MAX
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer

MAGIC_V0 = 0
MAGIC_V1 = 1

_MESSAGE = Struct(">qiIbb")
_TIMESTAMP = Struct(">q")
_LENGTH = Struct(">i")
_HEAD = Struct(">bb")
_BODIES_AT = (MESSAGE_TIMESTAMP_AT, MESSAGE_TIMESTAMP_AT + _TIMESTAMP.size)


def read_messages(
    buf: Buffer,
    pos: int,
    header: BatchHeader,
    *,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
    max_records: int | None = None,
) -> list[Record]:
    """The record of the message at `pos`, or all those in it if it is compressed.

    With `max_records` only the first so many, though all are checked.

    `header` is what `header.read_header` gave for it, and its CRC is taken for granted; those of
    messages in a compressed one are checked. `timestamp_type` is -1 for v0, which has no times.
    Raises BatchError: see the module, and `compression.decompress`.
    """
    if len(buf) - pos < header.size_bytes:
        raise BatchError(
            ErrorCode.CORRUPT_MESSAGE,
            f"the message of {header.size_bytes} bytes is cut after {len(buf) - pos}",
            offset=header.base_offset,
        )
    try:
        begin, end = pos + _BODIES_AT[header.magic], pos + header.size_bytes
        key, value = _read_pair(memoryview(buf)[begin:end])
        if header.compression == Codec.NONE:
            return [_outer_record(header, key, value)]
        payload = _inflate(header, value, max_decompressed_bytes)
        return _read_inner(header, payload, sys.maxsize if max_records is None else max_records)
    except BatchError as error:
        raise error.at(header.base_offset) from None


def _outer_record(header: BatchHeader, key: Buffer | None, value: Buffer | None) -> Record:
    return Record(
        header.base_offset,
        header.max_timestamp,
        _timestamp_type(header),
        None if key is None else bytes(key),
        None if value is None else bytes(value),
    )


def _timestamp_type(header: BatchHeader) -> int:
    if header.magic == MAGIC_V0:
        return NO_TIMESTAMP_TYPE
    return LOG_APPEND_TIME if header.is_log_append_time else CREATE_TIME


def _inflate(header: BatchHeader, value: memoryview | None, max_bytes: int) -> bytes:
    codec = codec_of(header.compression)
    if codec is Codec.ZSTD:
        raise _invalid(f"format v{header.magic} knows no zstd")
    if value is None:
        raise _invalid("a compressed message without a value")
    data: Buffer = value
    if codec is Codec.LZ4 and header.magic == MAGIC_V0:
        data = correct_lz4_checksum(value)
    return decompress(codec, data, max_bytes)


def _read_inner(header: BatchHeader, payload: bytes, max_records: int) -> list[Record]:
    """The first records of a compressed message, from the message set in it."""
    view = memoryview(payload)
    by_broker = header.is_log_append_time
    kind = _timestamp_type(header)
    rows: list[Record] = []
    pos, end = 0, len(payload)
    lowest, highest, offset = OFFSET_MAX, -OFFSET_MAX, 0
    while pos < end:
        offset, magic, message_end = _check_inner(view, pos)
        lowest, highest = min(lowest, offset), max(highest, offset)
        timestamp = NO_TIMESTAMP
        if magic == MAGIC_V1:
            (timestamp,) = _TIMESTAMP.unpack_from(payload, pos + MESSAGE_TIMESTAMP_AT)
            if by_broker:
                timestamp = header.max_timestamp
        key, value = _read_pair(view[pos + _BODIES_AT[magic] : message_end])
        pos = message_end
        if len(rows) < max_records:
            rows.append(
                Record(
                    offset,
                    timestamp,
                    kind,
                    None if key is None else bytes(key),
                    None if value is None else bytes(value),
                )
            )
    if not payload:
        raise _invalid("a compressed message with nothing in it")
    base = _base_offset(header, offset)
    for one in (lowest, highest):
        if not -1 <= base + one < OFFSET_MAX:
            raise _invalid(f"a message in it would have offset {base + one}")
    return [row._replace(offset=base + row.offset) for row in rows] if base else rows


def _check_inner(view: memoryview, pos: int) -> tuple[int, int, int]:
    """Offset, magic and end of the message at `pos` of a decompressed set, if it is sound."""
    left = len(view) - pos
    if left < _MESSAGE.size:
        raise _corrupt(f"{left} bytes at the end of a compressed message are none")
    offset, length, crc, magic, attributes = _MESSAGE.unpack_from(view, pos)
    if magic not in (MAGIC_V0, MAGIC_V1):
        raise _corrupt(f"a message in it has magic {magic}")
    if not MESSAGE_LENGTHS_MIN[magic] <= length <= left - LENGTH_OVERHEAD_BYTES:
        raise _corrupt(f"a message in it has length {length}, {left} bytes are left")
    end: int = pos + LENGTH_OVERHEAD_BYTES + length
    if (found := crc32(view[pos + MAGIC_AT : end])) != crc:
        raise _corrupt(f"a message in it has CRC-32 {found:#010x}, and says {crc:#010x}")
    if attributes & CODEC_MASK:
        raise _invalid("a compressed message within a compressed message")
    return offset, magic, end


def _base_offset(header: BatchHeader, last_inner_offset: int) -> int:
    """What is to be added to the offsets in a compressed message."""
    if header.magic == MAGIC_V0 or header.base_offset == 0:
        return 0
    if header.base_offset < last_inner_offset:
        raise _invalid(
            f"the last message in it counts as {last_inner_offset}, more than its offset itself"
        )
    return header.base_offset - last_inner_offset


def _read_pair(body: memoryview) -> tuple[memoryview | None, memoryview | None]:
    """Key and value, which must fill `body`."""
    key, pos = _read_nullable(body, 0)
    value, pos = _read_nullable(body, pos)
    if pos != len(body):
        raise _corrupt(f"{len(body) - pos} bytes are left behind a message's value")
    return key, value


def _read_nullable(body: memoryview, pos: int) -> tuple[memoryview | None, int]:
    left = len(body) - pos - _LENGTH.size
    if left < 0:
        raise _corrupt("a message ends before its value's length")
    (length,) = _LENGTH.unpack_from(body, pos)
    if not -1 <= length <= left:
        raise _corrupt(f"a key or value has length {length}, {left} bytes are left")
    pos += _LENGTH.size
    if length < 0:
        return None, pos
    return body[pos : pos + length], pos + length


def _corrupt(reason: str) -> BatchError:
    return BatchError(ErrorCode.CORRUPT_MESSAGE, reason)


def _invalid(reason: str) -> BatchError:
    return BatchError(ErrorCode.INVALID_RECORD, reason)


def build_message_set(
    records: Iterable[Record],
    *,
    magic: int,
    compression: str | int = "none",
    level: int | None = None,
    max_timestamp: int | None = None,
) -> bytearray:
    """These records as messages of v0 or v1: one behind the other, or in one compressed message.

    Offsets must increase. Headers have no place and are left out, in v0 times too. In v1 records of
    one compressed message share `timestamp_type`; where that is the broker's clock, `max_timestamp`
    (else that of the latest) becomes the time of them all.

    Raises ValueError without records, or with such as do not go together; BatchError: zstd is
    UNSUPPORTED_COMPRESSION_TYPE, a time before 1970 INVALID_TIMESTAMP; OverflowError over 2 GiB.
    """
    if magic not in (MAGIC_V0, MAGIC_V1):
        raise ValueError(f"messages have magic 0 or 1, not {magic}")
    codec = codec_of(compression)
    if codec is Codec.ZSTD:
        raise BatchError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"format v{magic} knows no zstd")
    rows = list(records)
    _check_buildable(rows, magic, codec)
    if codec is Codec.NONE:
        out = bytearray()
        for record in rows:
            out += _encode_message(record, record.offset, magic, record.timestamp_ms)
        return out
    return _build_compressed(rows, magic, codec, level, max_timestamp)


def _check_buildable(rows: Sequence[Record], magic: int, codec: Codec) -> None:
    if not rows:
        raise ValueError("a message set has at least one record")
    previous = -1
    for record in rows:
        if record.offset <= previous:
            raise ValueError(f"offset {record.offset} follows {previous}")
        previous = record.offset
        if magic == MAGIC_V1 and record.timestamp_ms < NO_TIMESTAMP:
            raise BatchError(
                ErrorCode.INVALID_TIMESTAMP, f"format v1 has no time {record.timestamp_ms} ms"
            )
    kinds = {record.timestamp_type == LOG_APPEND_TIME for record in rows}
    if magic == MAGIC_V1 and codec is not Codec.NONE and len(kinds) > 1:
        raise ValueError("records of one compressed message have one type of timestamps")


def _build_compressed(
    rows: Sequence[Record], magic: int, codec: Codec, level: int | None, max_timestamp: int | None
) -> bytearray:
    base = rows[0].offset if magic == MAGIC_V1 else 0
    if max_timestamp is None:
        max_timestamp = max(record.timestamp_ms for record in rows)
    by_broker = rows[0].timestamp_type == LOG_APPEND_TIME
    inner = bytearray()
    for record in rows:
        timestamp = max_timestamp if by_broker else record.timestamp_ms
        inner += _encode_message(record, record.offset - base, magic, timestamp)
    value = compress(codec, inner, level)
    if codec is Codec.LZ4 and magic == MAGIC_V0:
        value = break_lz4_checksum(value)
    last = rows[-1]
    outer = Record(last.offset, max_timestamp, last.timestamp_type, None, value)
    return _encode_message(outer, last.offset, magic, max_timestamp, codec)


def _encode_message(
    record: Record, offset: int, magic: int, timestamp: int, codec: Codec = Codec.NONE
) -> bytearray:
    attributes = int(codec)
    if magic == MAGIC_V1 and record.timestamp_type == LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_BIT
    message = bytearray(MAGIC_AT)
    message += _HEAD.pack(magic, attributes)
    if magic == MAGIC_V1:
        message += _TIMESTAMP.pack(timestamp)
    for part in (record.key, record.value):
        message += _LENGTH.pack(-1 if part is None else len(part))
        message += part or b""
    if len(message) > BATCH_BYTES_MAX or not 0 <= offset <= INT64_MAX:
        raise OverflowError(f"a message of {len(message)} bytes at offset {offset}")
    pack_into(">qi", message, 0, offset, len(message) - LENGTH_OVERHEAD_BYTES)
    pack_into(">I", message, MESSAGE_CRC_AT, crc32(memoryview(message)[MAGIC_AT:]))
    return message


__all__ = ["MAGIC_V0", "MAGIC_V1", "build_message_set", "read_messages"]
