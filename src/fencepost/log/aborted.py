"""Aborted transactions of a log, from the transaction indexes of its segments."""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.log.disk import Disk
from fencepost.log.errors import CorruptFileError
from fencepost.log.replay import rebuild_txn_index
from fencepost.log.segment_row import SegmentRow
from fencepost.log.txn_index import TxnIndex
from fencepost.wire.records.txn_index import AbortedTxn


def find_aborted(disk: Disk, row: SegmentRow, from_offset: int, bound: int) -> list[AbortedTxn]:
    """Those with anything in `from_offset` to below `bound`, in the order of their markers.

    CorruptFileError (the log), OSError.
    """
    aborted: list[AbortedTxn] = []
    for index in _indexes(disk, row, from_offset):
        found = index.collect(from_offset, bound)
        aborted += found.transactions
        if found.is_complete:
            break
    return aborted


def has_aborted(disk: Disk, row: SegmentRow, from_offset: int) -> bool:
    """Whether any may reach `from_offset` or beyond; raises likewise."""
    return any(map(len, _indexes(disk, row, from_offset)))


def _indexes(disk: Disk, row: SegmentRow, from_offset: int) -> Iterator[TxnIndex]:
    """From the segment in which `from_offset` may lie on; a damaged one is made again."""
    for segment in row.from_offset(from_offset):
        try:
            yield segment.txn_index
        except CorruptFileError:
            rebuild_txn_index(disk, row, segment)
            yield segment.txn_index
