"""A log as opening it has left it, and what there was to do."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from fencepost.log.disk import Disk
from fencepost.log.epochs import LeaderEpochCache
from fencepost.log.meta import encode_partition_metadata
from fencepost.log.names import PARTITION_METADATA_FILE
from fencepost.log.producers import ProducerStates
from fencepost.log.segment_row import SegmentRow
from fencepost.wire.types import Uuid

OFFSET_MAX: Final = (1 << 63) - 1


class RecoveryReport(Struct):
    """What opening a log found and did."""

    was_unclean: bool = False
    end_offset: int = 0
    segments_scanned: int = 0
    bytes_cut: int = 0
    """Bytes behind the last sound batch, whole segments included."""
    lost_from_offset: int | None = None
    """Where records that had been durable begin to be missing, if the caller accepted that."""
    epochs_rebuilt: bool = False


class LoadedLog(Struct):
    """A log as it was found, after recovery."""

    row: SegmentRow
    start_offset: int
    end_offset: int
    recovery_point: int
    gaps_below: int
    """Below it segments may follow each other with a gap: of compaction, or of accepted loss."""
    epochs: LeaderEpochCache
    epochs_changed: bool
    producers: ProducerStates
    topic_id: Uuid | None
    topic_id_written: bool
    """Whether `partition.metadata` was written now, and is not durable yet."""
    is_new: bool
    report: RecoveryReport = field(default_factory=RecoveryReport)


def write_topic_id(disk: Disk, directory: str, topic_id: Uuid) -> None:
    """Durable with the first flush, so that a thousand new partitions cost no sync. OSError."""
    file = disk.open(f"{directory}/{PARTITION_METADATA_FILE}", create=True)
    try:
        if file.size():
            file.truncate(0)
        file.write_at(encode_partition_metadata(topic_id), 0)
    finally:
        file.close()
