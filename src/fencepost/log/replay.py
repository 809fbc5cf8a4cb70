"""Producer state from batches: one at a time as they are appended, or all of a log's again.

A transaction's end marker says whether it was aborted; where it began is known from the producer's
state in front of the marker. So the transaction index of a segment is made while producer state is
replayed, beginning at a snapshot that is not behind the segment's base offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from fencepost.batch.control import read_control
from fencepost.batch.errors import BatchError
from fencepost.batch.header import BatchHeader
from fencepost.log.disk import Buffer, Disk
from fencepost.log.errors import CorruptFileError
from fencepost.log.names import SNAPSHOT_SUFFIX, offset_file
from fencepost.log.producers import (
    SNAPSHOT_BYTES_MAX,
    ProducerState,
    ProducerStates,
    decode_snapshot,
)
from fencepost.log.segment import Segment
from fencepost.log.segment_row import SegmentRow
from fencepost.log.segment_walk import CACHED_CHUNK_BYTES
from fencepost.log.txn_index import TxnIndex
from fencepost.wire.records.control import ControlType, EndTxnMarker
from fencepost.wire.records.txn_index import AbortedTxn

_NOTHING_KNOWN: Final[Mapping[int, int]] = {}


def note_batch(
    producers: ProducerStates, header: BatchHeader, first_offset: int, batch: Buffer
) -> AbortedTxn | None:
    """Let `producers` know of a batch of a producer that stands in the log at `first_offset`.

    If that ends a transaction by aborting it, this is what the transaction index has to say.
    """
    if not header.is_control:
        producers.update(header, first_offset)
        return None
    placed = header._replace(base_offset=first_offset)
    try:
        records = read_control(batch, check=False)
    except BatchError:
        records = []  # no marker that can be applied; it takes its offsets all the same
    for record in records:
        if isinstance(record.value, EndTxnMarker):
            begun = producers.complete_transaction(placed, record.value.coordinator_epoch)
            if begun < 0 or record.type != ControlType.ABORT:
                return None
            undecided = producers.first_undecided_offset()
            return AbortedTxn(
                producer_id=header.producer_id,
                first_offset=begun,
                last_offset=placed.last_offset,
                last_stable_offset=placed.next_offset if undecided is None else undecided,
            )
    producers.end_offset = placed.next_offset
    return None


def load_producers(
    disk: Disk,
    row: SegmentRow,
    producers: ProducerStates,
    end_offset: int,
    index_from: int | None = None,
    high_watermark: int | None = None,
    producers_from: Mapping[int, int] = _NOTHING_KNOWN,
) -> None:
    """Make `producers` the state at `end_offset`, from the newest sound snapshot and the log.

    Batches below the log's start count as long as they are there. Snapshots that are not sound are
    removed. With `index_from`, the transaction indexes of segments that begin there or behind are
    made again, in memory, from a snapshot before them. With `high_watermark`, which is of a log
    that is opened, the transactions with markers from there on are known, too, whose ends may yet
    be cut off: if there are any, a snapshot behind them will not do, since it has only what is
    open. Of segments that were read just now `producers_from` says, by base offset, where the first
    batch of a producer lies. CorruptFileError (the log), OSError.
    """
    latest = end_offset if index_from is None else min(index_from, end_offset)
    if high_watermark is not None and _has_markers(row, high_watermark, latest):
        latest = high_watermark
    begin = _load_snapshot(disk, row, producers, latest)
    for offset in sorted(at for at in row.snapshots if at > begin):
        _read_snapshot(disk, row, offset)
    for segment in row.from_offset(begin):
        entries = list(_replay(segment, producers, begin, producers_from.get(segment.base_offset)))
        if index_from is not None and segment.base_offset >= index_from:
            segment.install_txn_index(TxnIndex(entries))
    producers.end_offset = end_offset


def rebuild_txn_index(disk: Disk, row: SegmentRow, segment: Segment) -> None:
    """Make the transaction index of a closed segment again. CorruptFileError (the log), OSError."""
    producers = ProducerStates()
    begin = _load_snapshot(disk, row, producers, segment.base_offset)
    entries: list[AbortedTxn] = []
    for replayed in row.from_offset(begin):
        entries = list(_replay(replayed, producers, begin))
        if replayed is segment:
            break
    segment.install_txn_index(TxnIndex(entries))
    for file in segment.write_txn_index():
        file.close()


def settle_active(row: SegmentRow, end_offset: int) -> int | None:
    """Have the active segment's transaction index in memory, cut to the log's end. OSError.

    If it is damaged: the offset from which `load_producers` is to make indexes again.
    """
    try:
        row.active.txn_index.truncate(end_offset)
    except CorruptFileError:
        return row.active.base_offset
    return None


def _load_snapshot(disk: Disk, row: SegmentRow, producers: ProducerStates, latest: int) -> int:
    """Load the newest sound snapshot that is not behind `latest`; where the replay begins."""
    for offset in sorted((at for at in row.snapshots if at <= latest), reverse=True):
        entries = _read_snapshot(disk, row, offset)
        if entries is not None:
            producers.load(entries, offset)
            return offset
    begin = row.segments[0].base_offset
    producers.clear(begin)
    return begin


def _has_markers(row: SegmentRow, begin: int, end: int) -> bool:
    """Whether a control batch of a producer lies from `begin` to below `end`, where the newest
    snapshot is, if there is one in between. CorruptFileError, OSError."""
    newest = max((at for at in row.snapshots if at <= end), default=0)
    for segment in row.from_offset(begin) if newest > begin else ():
        for _, header in segment.headers(segment.position_of(begin), segment.size_bytes):
            if header.base_offset >= newest:
                return False
            if header.is_control and header.producer_id >= 0:
                return True
    return False


def _read_snapshot(disk: Disk, row: SegmentRow, offset: int) -> list[ProducerState] | None:
    """The producers of a snapshot; None if it is not sound, and then it is removed. OSError."""
    path = row.path(offset_file(offset, SNAPSHOT_SUFFIX))
    try:
        return decode_snapshot(path, disk.read(path, SNAPSHOT_BYTES_MAX))
    except (CorruptFileError, FileNotFoundError):
        disk.unlink(path)
        row.snapshots.discard(offset)
        return None


def _replay(
    segment: Segment, producers: ProducerStates, begin: int, producers_from: int | None = None
) -> Iterator[AbortedTxn]:
    if producers_from is None:
        headers = segment.headers(segment.position_of(begin), segment.size_bytes)
    elif producers_from == segment.size_bytes:
        return
    else:
        start = max(segment.position_of(begin), producers_from)
        headers = segment.headers(start, segment.size_bytes, CACHED_CHUNK_BYTES)
    for position, header in headers:
        if header.producer_id >= 0:
            batch: bytes | bytearray = b""
            if header.is_control:
                batch = segment.read(position, position + header.size_bytes)
            aborted = note_batch(producers, header, header.base_offset, batch)
            if aborted is not None:
                yield aborted
