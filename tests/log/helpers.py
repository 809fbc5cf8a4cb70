"""Batches and logs for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.batch.header import BatchHeader, iter_headers, read_header
from fencepost.batch.record_batch import RecordBatch, iter_batches
from fencepost.batch.records import build_batch
from fencepost.log.appendable_log import AppendResult
from fencepost.log.config import LogConfig
from fencepost.log.disk import Disk
from fencepost.log.load_params import LoadLogParams
from fencepost.log.partition_log import PartitionLog
from fencepost.log.segment_cache import SegmentCache
from fencepost.wire.types import Buffer

NOW_MS = 1_700_000_000_000


def make_batch(
    records: int = 1,
    value_bytes: int = 20,
    timestamp_ms: int = 1000,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    fill: int = 0,
) -> bytearray:
    """A batch whose records have consecutive timestamps."""
    items = [(b"k", bytes([(fill + at) % 256]) * value_bytes) for at in range(records)]
    return build_batch(
        items,
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def config(**props: object) -> LogConfig:
    """Topic configs; underscores stand for dots."""
    return LogConfig.from_props({name.replace("_", "."): value for name, value in props.items()})


def open_log(
    disk: Disk,
    directory: str,
    log_config: LogConfig | None = None,
    *,
    cache: SegmentCache | None = None,
    lower_checkpoints: Callable[[int, int], None] | None = None,
    **known: Any,
) -> PartitionLog:
    """A log on its own; `known` are fields of `LoadLogParams`."""
    return PartitionLog.open(
        disk,
        directory,
        "topic",
        0,
        log_config or config(),
        LoadLogParams(**{"wall_ms": NOW_MS, **known}),
        cache=cache,
        lower_checkpoints=lower_checkpoints,
    )


def append(
    log: PartitionLog, batch: bytearray | None = None, epoch: int = 0, wall_ms: int = NOW_MS
) -> AppendResult:
    """Append as the leader."""
    batch = make_batch() if batch is None else batch
    return log.append_as_leader(RecordBatch.parse(batch), epoch, wall_ms)


def follow(log: PartitionLog, data: Buffer, wall_ms: int = NOW_MS) -> None:
    """Append the whole batches in `data` as a follower."""
    for batch in iter_batches(data):
        log.append_as_follower(batch, wall_ms)


def contents(log: PartitionLog) -> list[tuple[int, bytes]]:
    """Base offset and bytes of every batch."""
    return [
        (header.base_offset, bytes(batch))
        for header, batch in log.read_all_batches(log.start_offset, log.end_offset)
    ]


def headers_of(data: bytes) -> list[BatchHeader]:
    """Headers of all batches in `data`."""
    return [header for _, header in iter_headers(data)]


def epochs_of(batches: list[tuple[int, bytes]], start_offset: int) -> list[tuple[int, int]]:
    """The leader epochs a log of these batches must have."""
    epochs: list[tuple[int, int]] = []
    for base_offset, data in batches:
        epoch = read_header(data).partition_leader_epoch
        if not epochs or epochs[-1][0] != epoch:
            epochs.append((epoch, max(base_offset, start_offset)))
    return epochs


def apply_retention(log: PartitionLog, wall_ms: int, high_watermark: int) -> int:
    """Delete what has expired, as a partition's machine has it done; how many segments."""
    expired = log.expired_segments(wall_ms, high_watermark)
    if expired.segments:
        log.advance_start_offset(expired.end_offset)
    return expired.segments
