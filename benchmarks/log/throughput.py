"""Appending to and reading from a log, against the same bytes without one."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import build_batch
from fencepost.log.config import LogConfig
from fencepost.log.disk import OsDisk
from fencepost.log.load_params import LoadLogParams
from fencepost.log.partition_log import PartitionLog

BATCH_BYTES = (1024, 16 * 1024, 1024 * 1024)
ROUND_BYTES = 64 * 1024 * 1024
APPENDS_MAX = 20_000
READ_BYTES = 1 << 20
SYNCS = 100
NAMES = {1024: "1 KB", 16 * 1024: "16 KB", 1024 * 1024: "1 MB"}


def make_batch(size_bytes: int) -> bytearray:
    """A batch of one record, of about that size."""
    return build_batch([(None, os.urandom(size_bytes - 80))], timestamp_ms=1)


def open_log(directory: Path, *, clean_shutdown: bool = False) -> PartitionLog:
    """A log on its own."""
    params = LoadLogParams(wall_ms=1, clean_shutdown=clean_shutdown)
    return PartitionLog.open(OsDisk(), str(directory), "t", 0, LogConfig.from_props({}), params)


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _row(name: str, size: int, count: int, ours: list[float], raw: list[float]) -> list[str]:
    """Medians; the ratio is the median of the rounds' ratios."""
    mb = size * count / 1e6
    ratio = statistics.median(b / a for a, b in zip(ours, raw, strict=True))
    own_us = statistics.median(a - b for a, b in zip(ours, raw, strict=True)) / count * 1e6
    return [
        name,
        f"{mb / statistics.median(ours):,.0f}",
        f"{mb / statistics.median(raw):,.0f}",
        f"{ratio:.2f}",
        f"{statistics.median(ours) / count * 1e6:,.1f}",
        f"{own_us:,.1f}",
    ]


def append_row(directory: Path, size: int, with_sync: bool, rounds: int) -> list[str]:
    """One line of the table of appends."""
    batch = make_batch(size)
    count = SYNCS if with_sync else min(ROUND_BYTES // size, APPENDS_MAX)
    ours, raw = [], []
    for _ in range(rounds + 1):
        raw.append(_append_raw(directory / "raw", batch, count, with_sync))
        ours.append(_append_to_log(directory / "t-0", batch, count, with_sync))
    name = NAMES[size] + (", fsync each" if with_sync else "")
    return _row(name, len(batch), count, ours[1:], raw[1:])


def _append_raw(path: Path, batch: bytearray, count: int, with_sync: bool) -> float:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    parts = [batch]

    def work() -> None:
        for _ in range(count):
            os.writev(descriptor, parts)
            if with_sync:
                os.fdatasync(descriptor)

    try:
        return _timed(work)
    finally:
        os.close(descriptor)
        path.unlink()


def _append_to_log(path: Path, batch: bytearray, count: int, with_sync: bool) -> float:
    log = open_log(path)
    parsed = RecordBatch.parse(batch)

    def work() -> None:
        for _ in range(count):
            log.append_as_leader(parsed, 0, 1)
            if with_sync:
                log.flush()

    log.flush()
    try:
        return _timed(work)
    finally:
        log.close(clean=False)
        shutil.rmtree(path)


def read_row(directory: Path, size: int, is_first: bool, rounds: int) -> list[str]:
    """One line of the table of reads: a megabyte at once, as a Fetch asks for, from the start.

    The first read of a batch after a start checks its CRC.
    """
    path = directory / "t-0"
    batch = make_batch(size)
    count = min(ROUND_BYTES // size, APPENDS_MAX)
    log = open_log(path)
    parsed = RecordBatch.parse(batch)
    for _ in range(count):
        log.append_as_leader(parsed, 0, 1)
    log.close()
    ours, raw = [], []
    log = open_log(path, clean_shutdown=True)
    for _ in range(rounds + 1):
        if is_first:
            log.close()
            log = open_log(path, clean_shutdown=True)
        raw.append(_read_raw(path / f"{0:020}.log"))
        ours.append(_timed(lambda opened=log: _read_log(opened, len(batch))))
    log.close()
    shutil.rmtree(path)
    name = NAMES[size] + (", CRC checked" if is_first else "")
    return _row(name, len(batch), count, ours[1:], raw[1:])[:4]


def _read_raw(path: Path) -> float:
    descriptor = os.open(path, os.O_RDONLY)

    def work() -> None:
        position = 0
        while chunk := os.pread(descriptor, READ_BYTES, position):
            position += len(chunk)

    try:
        return _timed(work)
    finally:
        os.close(descriptor)


def _read_log(log: PartitionLog, size: int) -> None:
    offset, end_offset = 0, log.end_offset
    while offset < end_offset:
        offset += log.read(offset, READ_BYTES, end_offset).size_bytes // size  # one record each
    assert offset == end_offset
