"""Opening a log that a crash left behind: everything from the recovery point on is read."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from pathlib import Path

from benchmarks.log.throughput import make_batch, open_log
from fencepost.batch.record_batch import RecordBatch

BATCH_BYTES = 16 * 1024
CHUNK_BYTES = 1 << 20


def row(directory: Path, gb: float, rounds: int) -> list[str]:
    """The line of the table; the log is in the page cache as far as that has room."""
    path = directory / "t-0"
    log = open_log(path)
    batch = make_batch(BATCH_BYTES)
    parsed = RecordBatch.parse(batch)
    while log.size_bytes < gb * 1e9:
        for _ in range(1000):
            log.append_as_leader(parsed, 0, 1)
    log.flush()
    log.close(clean=False)
    ours, raw = [], []
    for _ in range(max(1, min(rounds, 3))):
        raw.append(_read(path))
        began = time.perf_counter()
        log = open_log(path)
        ours.append(time.perf_counter() - began)
        assert log.recovery.was_unclean and log.recovery.bytes_cut == 0
        size_gb = log.size_bytes / 1e9
        log.close(clean=False)
    shutil.rmtree(path)
    took = statistics.median(ours)
    return [
        f"{size_gb:.1f} GB in batches of 16 KB",
        f"{took:.2f}",
        f"{took / size_gb:.2f}",
        f"{statistics.median(raw) / size_gb:.2f}",
    ]


def _read(path: Path) -> float:
    began = time.perf_counter()
    for file in sorted(path.glob("*.log")):
        descriptor = os.open(file, os.O_RDONLY)
        position = 0
        while chunk := os.pread(descriptor, CHUNK_BYTES, position):
            position += len(chunk)
        os.close(descriptor)
    return time.perf_counter() - began
