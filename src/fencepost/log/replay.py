"""Producer state from batches: one at a time as they are appended, or all of a log's again."""

from __future__ import annotations

from fencepost.batch.control import read_control
from fencepost.batch.errors import BatchError
from fencepost.batch.header import BatchHeader
from fencepost.log.disk import Buffer, Disk
from fencepost.log.errors import CorruptFileError
from fencepost.log.names import SNAPSHOT_SUFFIX, offset_file
from fencepost.log.producers import ProducerStates, decode_snapshot
from fencepost.log.segment_row import SegmentRow
from fencepost.wire.records.control import EndTxnMarker


def note_batch(
    producers: ProducerStates, header: BatchHeader, first_offset: int, batch: Buffer
) -> None:
    """Let `producers` know of a batch of a producer that stands in the log at `first_offset`."""
    if not header.is_control:
        producers.update(header, first_offset)
        return
    placed = header._replace(base_offset=first_offset)
    try:
        markers = [record.value for record in read_control(batch, check=False)]
    except BatchError:
        markers = []  # no marker that anybody could act on; it takes its offsets all the same
    for marker in markers:
        if isinstance(marker, EndTxnMarker):
            producers.complete_transaction(placed, marker.coordinator_epoch)
            return
    producers.end_offset = placed.next_offset


def load_producers(
    disk: Disk,
    row: SegmentRow,
    producers: ProducerStates,
    end_offset: int,
) -> None:
    """Make `producers` the state at `end_offset`, from the newest sound snapshot and the log.

    Batches below the log's start count as long as they are there. Snapshots that are not sound are
    removed. CorruptFileError (the log), OSError.
    """
    begin = row.segments[0].base_offset
    producers.clear(begin)
    for offset in sorted((at for at in row.snapshots if at <= end_offset), reverse=True):
        path = row.path(offset_file(offset, SNAPSHOT_SUFFIX))
        try:
            entries = decode_snapshot(path, disk.read(path))
        except (CorruptFileError, FileNotFoundError):
            disk.unlink(path)
            row.snapshots.discard(offset)
            continue
        producers.load(entries, offset)
        begin = offset
        break
    for segment in row.from_offset(begin):
        start = segment.position_of(begin)
        for position, header in segment.headers(start, segment.size_bytes):
            if header.producer_id >= 0:
                batch = b""
                if header.is_control:
                    batch = segment.read(position, position + header.size_bytes)
                note_batch(producers, header, header.base_offset, batch)
    producers.end_offset = end_offset
