"""Compacting a log on one thread, and looking at what is left of it."""

from __future__ import annotations

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.header import BatchHeader
from fencepost.batch.records import Record, build_batch, read_batch, read_records
from fencepost.log.cleaner.job import Cleaning, Copied
from fencepost.log.cleaner.offset_map import OffsetMap
from fencepost.log.partition_log import PartitionLog

from .helpers import NOW_MS, append

Item = tuple[bytes | None, bytes | None]


def clean(
    log: PartitionLog,
    cleaned_offset: int | None = None,
    *,
    high_watermark: int | None = None,
    wall_ms: int = NOW_MS,
    map_bytes: int = 1 << 20,
    io_bytes: int = 1 << 16,
) -> Cleaning:
    """Compact what may be compacted, whether it is worth it or not."""
    if high_watermark is None:
        high_watermark = log.end_offset
    dirt = log.measure_dirt(cleaned_offset, high_watermark, wall_ms)
    cleaning = log.begin_cleaning(dirt, wall_ms)

    def put_in_place(copied: Copied) -> None:
        swap = log.begin_swap(cleaning, copied)
        swap.run()
        log.finish_swap(swap)

    try:
        cleaning.run(OffsetMap(map_bytes), put_in_place, io_bytes=io_bytes)
    finally:
        log.end_cleaning(cleaning)
    return cleaning


def put(
    log: PartitionLog,
    *items: Item,
    timestamp_ms: int = NOW_MS,
    compression: str = "none",
    epoch: int = 0,
    **stamps: int | bool,
) -> int:
    """Append a batch of keys and values; its first offset."""
    batch = build_batch(items, timestamp_ms=timestamp_ms, compression=compression, **stamps)
    return append(log, batch, epoch).first_offset


def put_marker(
    log: PartitionLog,
    producer_id: int,
    *,
    committed: bool,
    producer_epoch: int = 0,
    epoch: int = 0,
) -> int:
    """End a producer's transaction; the marker's offset."""
    marker = build_end_txn_marker(
        committed=committed,
        coordinator_epoch=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp_ms=NOW_MS,
    )
    return append(log, marker, epoch).first_offset


def settle(log: PartitionLog) -> None:
    """Close the active segment and make everything durable, so that all of it may be compacted."""
    log.roll(NOW_MS)
    log.flush()


def records_of(log: PartitionLog) -> list[Record]:
    """All records that are not control records."""
    data = [bytes(batch) for _, batch in log.read_all_batches(log.start_offset, log.end_offset)]
    return [record for batch in data for record in read_records(batch)]


def batches_of(log: PartitionLog) -> list[tuple[BatchHeader, list[Record]]]:
    """Header and records of every batch."""
    found = []
    for header, batch in log.read_all_batches(log.start_offset, log.end_offset):
        found.append((header, read_batch(batch, 0, header)))
    return found


def pairs_of(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record."""
    return [(record.offset, record.key, record.value) for record in records_of(log)]
