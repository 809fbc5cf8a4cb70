"""Batches of one format into another: what brokers did between clients of different ages.

Up (v0, v1 to v2) loses nothing: offsets, timestamps, keys, values and codec stay. Messages that
were not compressed are gathered into batches; a compressed one becomes one batch. Messages of v0
have no timestamps, and their batch says -1, of the producer's making.

Down (to v1 or v0) is what Kafka's brokers did before 4.0 for a Fetch of an old version, and loses
as much as it did there: headers, and who produced a batch, in which leader's epoch and transaction;
for v0 also timestamps. Control batches are left out, so offsets have gaps. A batch is one message
set, compressed as it was; zstd, which the old formats do not know, is UNSUPPORTED_COMPRESSION_TYPE.
Batches that are already that old stay as they are.

The broker here does neither; it has no clients that old (Produce from v3, Fetch from v4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fencepost.batch.compression import DECOMPRESSED_BYTES_MAX, Codec
from fencepost.batch.errors import BatchError
from fencepost.batch.header import (
    LOG_APPEND_TIME_BIT,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    iter_headers,
    require_crc,
)
from fencepost.batch.legacy import MAGIC_V0, MAGIC_V1, build_message_set, read_messages
from fencepost.batch.record import LOG_APPEND_TIME
from fencepost.batch.record_writer import encode_record
from fencepost.batch.records import Record, assemble, read_batch
from fencepost.batch.walk import INT64_MAX, INT64_MIN
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Buffer

GATHERED_RECORDS_MAX = 10_000
GATHERED_BYTES_MAX = 1 << 20
_OFFSET_DELTA_MAX = 2**31 - 2


class MessageRun(NamedTuple):
    """Records that can be one batch: read from messages of one codec and one kind of timestamps.

    `end` is the position behind the last message.
    """

    records: list[Record]
    codec: Codec
    end: int


def iter_message_runs(
    buf: Buffer,
    pos: int = 0,
    *,
    check: bool = True,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> Iterator[MessageRun]:
    """The messages from `pos` up to the first v2 batch or the end, a run at a time.

    A run is one compressed message, or as many plain ones as go together, a megabyte at most if
    more than one. Raises BatchError for one that is not sound; those before it are given first.
    """
    gathered: list[Record] = []
    begin = reached = pos
    try:
        for at, header in iter_headers(buf, pos):
            if header.magic == MAGIC:
                break
            if check:
                require_crc(buf, at, header)
            found = read_messages(buf, at, header, max_decompressed_bytes=max_decompressed_bytes)
            end = at + header.size_bytes
            if gathered and (
                header.compression != Codec.NONE
                or end - begin > GATHERED_BYTES_MAX
                or len(gathered) == GATHERED_RECORDS_MAX
                or not _go_together(gathered, found[0])
            ):
                yield MessageRun(gathered, Codec.NONE, reached)
                gathered, begin = [], reached
            if header.compression == Codec.NONE:
                gathered.append(found[0])
            else:
                yield MessageRun(found, Codec(header.compression), end)
                begin = end
            reached = end
    except BatchError:
        if gathered:
            yield MessageRun(gathered, Codec.NONE, reached)
        raise
    if gathered:
        yield MessageRun(gathered, Codec.NONE, reached)


def _go_together(gathered: Sequence[Record], record: Record) -> bool:
    first, previous = gathered[0], gathered[-1]
    return (
        record.timestamp_type == first.timestamp_type
        and (record.timestamp_type != LOG_APPEND_TIME or record.timestamp_ms == first.timestamp_ms)
        and record.offset - previous.offset > 0
        and record.offset - first.offset <= _OFFSET_DELTA_MAX
    )


def up_convert(
    buf: Buffer, *, check: bool = True, max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX
) -> bytearray:
    """All whole batches and messages of `buf` as v2 batches; those that are v2 stay as they are.

    Raises BatchError for messages that are not sound (v2 batches are not looked into), and
    UNSUPPORTED_FOR_MESSAGE_FORMAT for messages whose offsets v2 cannot say.
    """
    out = bytearray()
    view = memoryview(buf)
    position = 0
    while True:
        behind = position
        for at, header in iter_headers(view, position):
            if header.magic != MAGIC:
                break
            behind = at + header.size_bytes
        out += view[position:behind]
        position = behind
        for run in iter_message_runs(
            view, behind, check=check, max_decompressed_bytes=max_decompressed_bytes
        ):
            out += build_from_messages(run.records, run.codec)
            position = run.end
        if position == behind:
            return out


def build_from_messages(records: Sequence[Record], codec: Codec = Codec.NONE) -> bytearray:
    """One v2 batch of records with the offsets and timestamps they have.

    Raises BatchError UNSUPPORTED_FOR_MESSAGE_FORMAT when their offsets do not increase, or reach
    farther than a batch can, INVALID_TIMESTAMP when timestamps do.
    """
    first = records[0]
    payload, previous = bytearray(), first.offset - 1
    by_broker = first.timestamp_type == LOG_APPEND_TIME
    for record in records:
        delta = record.offset - first.offset
        if record.offset <= previous or first.offset < 0 or delta > _OFFSET_DELTA_MAX:
            raise BatchError(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                f"no v2 batch has offset {record.offset} behind {previous} and {first.offset}",
            )
        previous = record.offset
        time_delta = record.timestamp_ms - first.timestamp_ms
        if not INT64_MIN <= time_delta <= INT64_MAX:
            raise BatchError(
                ErrorCode.INVALID_TIMESTAMP,
                f"{record.timestamp_ms} ms beside {first.timestamp_ms} ms passes 64 bits",
            )
        payload += encode_record(delta, time_delta, record.key, record.value, [])
    header = BatchHeader(
        base_offset=first.offset,
        batch_length=0,
        partition_leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=codec | (LOG_APPEND_TIME_BIT if by_broker else 0),
        last_offset_delta=previous - first.offset,
        base_timestamp=first.timestamp_ms,
        max_timestamp=max(record.timestamp_ms for record in records),
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=len(records),
    )
    return assemble(header, payload)


def down_convert(
    buf: Buffer,
    magic: int,
    *,
    first_offset: int = 0,
    check: bool = True,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> bytearray:
    """The whole batches of `buf` as messages of v0 or v1; see the module for what is lost.

    Records below `first_offset` are left out of batches without compression, as Kafka did it for
    the offset a fetch asked for. Raises BatchError for batches that are not sound, for zstd, and
    INVALID_TIMESTAMP for times before 1970.
    """
    if magic not in (MAGIC_V0, MAGIC_V1):
        raise ValueError(f"messages have magic 0 or 1, not {magic}")
    out = bytearray()
    view = memoryview(buf)
    for pos, header in iter_headers(view):
        if header.magic <= magic:
            out += view[pos : pos + header.size_bytes]
            continue
        if header.is_control:
            continue
        if check:
            require_crc(view, pos, header)
        records = read_batch(view, pos, header, max_decompressed_bytes=max_decompressed_bytes)
        if header.compression == Codec.NONE:
            records = [record for record in records if record.offset >= first_offset]
        if records:
            out += build_message_set(
                records,
                magic=magic,
                compression=header.compression,
                max_timestamp=header.max_timestamp if header.is_log_append_time else None,
            )
    return out


__all__ = ["MessageRun", "build_from_messages", "down_convert", "iter_message_runs", "up_convert"]
