"""Looking things up in a row of segments: ranges of batches, and records by their timestamps.

Functions of segments and offsets; what may be looked at (the log's start, a high watermark) is the
caller's to say.

A closed segment may be missing as a whole, or be cut at its end: opening a log does not check it,
because that would cost two reads per segment. A read that goes on to the next segment comes from an
offset in front of it, and finds there that records are missing; they are not passed over in
silence. Below `gaps_below` they are: compaction has left such gaps in logs of Kafka's, or the loss
is accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from fencepost.batch.compression import DECOMPRESSED_BYTES_MAX
from fencepost.batch.header import MAGIC, BatchHeader
from fencepost.batch.records import read_batch, read_payload
from fencepost.batch.walk import INT64_MIN, Reason, RecordError, Rules, walk
from fencepost.log.disk import Buffer
from fencepost.log.errors import CorruptFileError
from fencepost.log.offset_index import RELATIVE_MAX
from fencepost.log.segment import Segment
from fencepost.log.time_index import NO_TIMESTAMP


class ReadResult(Struct, frozen=True):
    """Whole batches in `buffers`, one behind the other, beginning at or before what was asked."""

    buffers: list[Buffer]
    size_bytes: int
    asked_offset: int
    ends_at: tuple[Segment, int] | None = None
    """The segment and the position in it where the last batch ends."""

    def find_following(self) -> tuple[int, int] | None:
        """The base offset and the size of the batch behind those that were read, if their segment
        has one; the log must not have been cut or deleted since. CorruptFileError, OSError."""
        return None if self.ends_at is None else self.ends_at[0].batch_at(self.ends_at[1])

    @property
    def first_offset(self) -> int:
        """The base offset of the first batch (of a compressed message of formats v0 and v1, the
        offset of its last record); what was asked for if there is none."""
        return int.from_bytes(self.buffers[0][:8]) if self.buffers else self.asked_offset


class TimestampedOffset(NamedTuple):
    """A record's offset and timestamp, and the epoch of its batch if it has one."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None


def read_batches(
    segments: Sequence[Segment],
    offset: int,
    max_bytes: int,
    bound: int,
    min_one_batch: bool,
    gaps_below: int,
) -> ReadResult:
    """Whole batches of the first of `segments` that has any from `offset` on and below `bound`.

    See `PartitionLog.read`. CorruptFileError, OSError.
    """
    before: Segment | None = None
    for segment in segments:
        if before is not None:
            _check_follows(before, offset, segment, gaps_below)
        if segment.base_offset >= bound:
            break
        start = segment.position_of(offset)
        if start >= segment.size_bytes:
            before = segment
            continue
        end = _end_of_read(segment, start, max_bytes, bound, min_one_batch)
        if end <= start:
            return ReadResult([], 0, offset, (segment, start))
        data = segment.read(start, end)
        return ReadResult([data], len(data), offset, (segment, end))
    return ReadResult([], 0, offset)


def _check_follows(before: Segment, next_offset: int, segment: Segment, gaps_below: int) -> None:
    """Nothing was found in `before` from `next_offset` on: it must be in `segment`, or no more.

    Where offsets leapt farther than an index can reach, a segment is named after the far side.
    CorruptFileError.
    """
    base_offset = segment.base_offset
    is_leap = base_offset - before.base_offset > RELATIVE_MAX + 1
    if next_offset < base_offset and base_offset > gaps_below and not is_leap:
        reason = f"offsets {next_offset} to {base_offset - 1} are missing behind it"
        raise CorruptFileError(before.path(), reason, before.size_bytes)


def measure_batches(segments: Sequence[Segment], offset: int, max_bytes: int, bound: int) -> int:
    """How many bytes there are from `offset` on and below `bound`, as far as `max_bytes` reaches.

    Unlike a read it goes on to later segments, and it looks at indexes and headers only: asking
    again and again, as for a fetch that waits, costs the same however much there is.
    CorruptFileError, OSError.
    """
    found_bytes = 0
    for segment in segments:
        left_bytes = max_bytes - found_bytes
        if segment.base_offset >= bound or left_bytes <= 0:
            break
        start = segment.position_of(offset)
        found_bytes += _end_of_read(segment, start, left_bytes, bound, False) - start
    return found_bytes


def _end_of_read(
    segment: Segment, start: int, max_bytes: int, bound: int, min_one_batch: bool
) -> int:
    if bound >= segment.next_offset:
        end = segment.size_bytes
    else:
        end = segment.position_of(bound)
    if end - start <= max_bytes:
        if end == segment.size_bytes and segment.is_active:
            segment.hint(segment.next_offset, end)
        return end
    cut = segment.boundary_at_most(start, start + max(max_bytes, 0))
    if cut == start and min_one_batch:
        cut = start + segment.batch_size_at(start)
    return min(cut, end)


def iter_batches(
    segments: Sequence[Segment], from_offset: int, upto: int, gaps_below: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every batch with a record from `from_offset` on that ends below `upto`, in order.

    CorruptFileError, OSError.
    """
    before: Segment | None = None
    next_offset = from_offset
    for segment in segments:
        if before is not None and next_offset < upto:
            _check_follows(before, next_offset, segment, gaps_below)
        if segment.base_offset >= upto:
            return
        start = segment.position_of(from_offset)
        for header, batch in segment.batches(start, segment.size_bytes):
            if header.last_offset >= upto:
                return
            yield header, batch
            next_offset = header.next_offset
        before = segment


def find_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int
) -> TimestampedOffset | None:
    """The first record from `start_offset` on whose timestamp is not below `timestamp_ms`.

    CorruptFileError, BatchError (a batch that does not decompress), OSError.
    """
    for data, header in batches_by_timestamp(segments, timestamp_ms, start_offset):
        found = find_in_batch(data, header, timestamp_ms, start_offset)
        if found is not None:
            return found
    return None


def batches_by_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int
) -> Iterator[tuple[Buffer, BatchHeader]]:
    """The batches that `find_timestamp` looks into, in order; nearly always the first has it.

    CorruptFileError, OSError.
    """
    for segment in segments:
        if segment.largest_timestamp().timestamp_ms < timestamp_ms:
            continue
        begin = segment.base_offset
        entry = segment.time_index.floor(timestamp_ms)
        if entry.timestamp_ms >= 0:
            begin += entry.relative_offset
        start = segment.position_of(max(begin, start_offset))
        for position, header in segment.headers(start, segment.size_bytes):
            if header.max_timestamp >= timestamp_ms:
                yield segment.read(position, position + header.size_bytes), header


def find_max_timestamp(segments: Sequence[Segment], start_offset: int) -> TimestampedOffset | None:
    """The first of the records with the largest timestamp, -1 if none has any.

    Raises as `find_timestamp`.
    """
    for data, header in batches_by_max_timestamp(segments, start_offset):
        found = find_in_batch(data, header, header.max_timestamp, start_offset)
        if found is not None:
            return found
    return None


def batches_by_max_timestamp(
    segments: Sequence[Segment], start_offset: int
) -> Iterator[tuple[Buffer, BatchHeader]]:
    """The batches in which the record with the largest timestamp may be, likeliest first.

    Nearly always the first has it. CorruptFileError, OSError.
    """
    newest = max(segments, key=lambda segment: segment.largest_timestamp().timestamp_ms)
    timestamp_ms, relative = newest.largest_timestamp()
    start = newest.position_of(newest.base_offset + relative)
    for position, header in newest.headers(start, newest.size_bytes):
        is_there = header.records_count and header.last_offset >= start_offset
        if header.max_timestamp >= timestamp_ms and is_there:
            yield newest.read(position, position + header.size_bytes), header
    yield from _largest_by_headers(segments, start_offset)


def _largest_by_headers(
    segments: Sequence[Segment], start_offset: int
) -> Iterator[tuple[Buffer, BatchHeader]]:
    """The same when compaction has emptied the batch with the largest timestamp of all."""
    best: tuple[Segment, int, BatchHeader] | None = None
    for segment in segments:
        for position, header in segment.headers(0, segment.size_bytes):
            is_newer = best is None or header.max_timestamp > best[2].max_timestamp
            if header.records_count and header.last_offset >= start_offset and is_newer:
                best = segment, position, header
    if best is not None and best[2].max_timestamp >= NO_TIMESTAMP.timestamp_ms:
        segment, position, header = best
        yield segment.read(position, position + header.size_bytes), header


def find_in_batch(
    data: Buffer,
    header: BatchHeader,
    timestamp_ms: int,
    start_offset: int,
    max_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> TimestampedOffset | None:
    """The first record of the batch from `start_offset` on that is not below `timestamp_ms`.

    Needs nothing but the bytes, so that any thread can do it. BatchError (it does not decompress,
    or to more than `max_bytes`).
    """
    epoch = header.partition_leader_epoch
    known_epoch = epoch if epoch >= 0 else None
    if header.magic == MAGIC and header.records_count == header.last_offset_delta + 1:
        at = _walk_to(data, header, timestamp_ms, max_bytes)
        if at is None or at[0] >= start_offset:
            return None if at is None else TimestampedOffset(*at, known_epoch)
    for record in read_batch(data, 0, header, max_decompressed_bytes=max_bytes):
        if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
            return TimestampedOffset(record.offset, record.timestamp_ms, known_epoch)
    return None


def _walk_to(
    data: Buffer, header: BatchHeader, timestamp_ms: int, max_bytes: int
) -> tuple[int, int] | None:
    """Offset and timestamp of the first record not below `timestamp_ms`, in a batch without gaps.

    Nothing is made of the records, of which there may be millions in a few bytes. BatchError.
    """
    if header.is_log_append_time or header.max_timestamp < 0:  # all records have that one
        is_late = header.max_timestamp >= timestamp_ms
        return (header.base_offset, header.max_timestamp) if is_late else None
    payload = read_payload(data, 0, header, max_bytes)
    before = Rules(header.records_count, header.base_timestamp, False, INT64_MIN, timestamp_ms - 1)
    try:
        walk(payload, before)
    except RecordError as error:
        if error.reason is not Reason.TIMESTAMP_BOUNDS:
            raise
        _, index, _, found_ms = error.report
        return header.base_offset + index, found_ms
    return None
