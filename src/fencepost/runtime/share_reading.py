"""Reads a partition's log for share consumers: whole batches, their bounds, what was aborted.

A share consumer wants a number of records, not of bytes, so a read goes on in growing pieces until
there are as many; `READ_BYTES_MAX` bounds it, because the event loop waits. What was read in front
of the first record that was acquired, and behind the last one, is left out of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from fencepost.batch.header import BatchHeader, iter_headers
from fencepost.batch.records import first_offset
from fencepost.log.readable_log import ReadableLog
from fencepost.machines.share.inputs import OffsetRange

Buffer = bytes | bytearray | memoryview

FIRST_PIECE_BYTES: Final = 32 * 1024
READ_BYTES_MAX: Final = 1 << 20
"""What is read of a partition at a time, besides a single batch that is larger."""


class BatchRead(Struct, frozen=True):
    """One batch in what was read."""

    offsets: OffsetRange
    data: memoryview
    producer_id: int
    is_control: bool
    is_transactional: bool


class ShareRead(Struct, frozen=True):
    """What was read at an offset."""

    offset: int
    batches: Sequence[BatchRead]
    aborted: Sequence[OffsetRange]

    def records(self, first: int, last: int) -> list[Buffer]:
        """The batches that have an offset of the range, one behind the other."""
        return [
            one.data
            for one in self.batches
            if one.offsets.last >= first and one.offsets.first <= last
        ]


def read_records(
    log: ReadableLog,
    offset: int,
    upper_bound: int,
    max_bytes: int,
    max_records: int,
    *,
    reads_committed: bool,
) -> ShareRead:
    """Batches from the one with `offset` on, below the bound, until there are `max_records`.

    Control batches count like others: they have offsets, too. Of `max_bytes` the first batch may
    have more. NotCachedError, LOG_ERRORS.
    """
    batches: list[BatchRead] = []
    left_bytes, left = min(max_bytes, READ_BYTES_MAX), max_records
    piece_bytes, at = FIRST_PIECE_BYTES, offset
    while at < upper_bound and left > 0 and (left_bytes > 0 or not batches):
        most = max(min(piece_bytes, left_bytes), 0)
        found = log.read(at, most, upper_bound, not batches)
        if not found.size_bytes:
            if most >= left_bytes:
                break
            piece_bytes = left_bytes  # the next batch is larger than the piece
            continue
        for buffer in found.buffers:
            view = memoryview(buffer)
            for position, header in iter_headers(view):
                one = _batch(view[position : position + header.size_bytes], header, at)
                batches.append(one)
                left -= one.offsets.last - max(one.offsets.first, offset) + 1
                at = one.offsets.last + 1
        left_bytes -= found.size_bytes
        piece_bytes *= 2
    aborted = _aborted(log, offset, at, batches) if reads_committed and batches else ()
    return ShareRead(offset, batches, aborted)


def _batch(data: memoryview, header: BatchHeader, at: int) -> BatchRead:
    if header.magic < 2:  # of a compressed message only the last offset is in front
        offsets = OffsetRange(min(first_offset(data), header.base_offset), header.base_offset)
        return BatchRead(offsets, data, -1, False, False)
    offsets = OffsetRange(header.base_offset, header.last_offset)
    return BatchRead(offsets, data, header.producer_id, header.is_control, header.is_transactional)


def _aborted(
    log: ReadableLog, offset: int, end_offset: int, batches: Sequence[BatchRead]
) -> list[OffsetRange]:
    """The batches that belong to aborted transactions; markers are none. LOG_ERRORS."""
    if not log.has_aborted_transactions(offset):
        return []
    transactions = log.aborted_transactions(offset, end_offset)
    return [
        one.offsets
        for one in batches
        if one.is_transactional
        and not one.is_control
        and any(
            txn.producer_id == one.producer_id
            and txn.first_offset <= one.offsets.first <= txn.last_offset
            for txn in transactions
        )
    ]
