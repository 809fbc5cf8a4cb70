"""How fast a log is compacted: MiB read per second, for some kinds of records and codecs.

    python benchmarks/log/compaction.py [--mib 64]

A log is written into a temporary directory in batches of about 16 KiB, a tenth of its keys being
distinct, and then compacted on this thread, without a pause, on the disk that is there. Bytes are
those of the segment files that were copied; the pass over the keys before it is part of the time.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from fencepost.batch import backend
from fencepost.batch.record_batch import RecordBatch
from fencepost.batch.records import build_batch
from fencepost.log.cleaner.job import CleaningStats, Copied
from fencepost.log.cleaner.offset_map import OffsetMap
from fencepost.log.config import LogConfig
from fencepost.log.disk import OsDisk
from fencepost.log.load_params import LoadLogParams
from fencepost.log.partition_log import PartitionLog

BATCH_BYTES = 16 * 1024
MAP_BYTES = 120 << 20
CONFIG = LogConfig.from_props({"cleanup.policy": "compact", "segment.bytes": 16 << 20})
NOW_MS = 1_700_000_000_000


class Kind(NamedTuple):
    """What the records are like."""

    name: str
    value_bytes: int
    compression: str


KINDS = (
    Kind("100 B records", 80, "none"),
    Kind("1 KiB records", 1000, "none"),
    Kind("100 B, lz4", 80, "lz4"),
    Kind("100 B, zstd", 80, "zstd"),
    Kind("100 B, gzip", 80, "gzip"),
)


def fill(log: PartitionLog, kind: Kind, size_bytes: int) -> int:
    """Write about that many bytes of records, before compression; how many records."""
    dice = random.Random(1)
    per_batch = max(1, BATCH_BYTES // (kind.value_bytes + 20))
    total = size_bytes // (kind.value_bytes + 20)
    keys = max(1, total // 10)
    text = bytes(dice.randrange(97, 123) for _ in range(4 * kind.value_bytes))
    count = 0
    while count < total:
        items = []
        for _ in range(per_batch):
            begin = dice.randrange(3 * kind.value_bytes)
            items.append(
                (b"key-%010d" % dice.randrange(keys), text[begin : begin + kind.value_bytes])
            )
        batch = build_batch(items, timestamp_ms=NOW_MS, compression=kind.compression)
        log.append_as_leader(RecordBatch.parse(batch), 0, NOW_MS)
        count += per_batch
    log.roll(NOW_MS)
    log.flush()
    return count


def compact(log: PartitionLog) -> CleaningStats:
    """Compact all of it."""
    cleaning = log.begin_cleaning(log.measure_dirt(None, log.end_offset, NOW_MS), NOW_MS)

    def put_in_place(copied: Copied) -> None:
        swap = log.begin_swap(cleaning, copied)
        swap.run()
        log.finish_swap(swap)

    cleaning.run(OffsetMap(MAP_BYTES), put_in_place)
    log.end_cleaning(cleaning)
    return cleaning.stats


def measure(kind: Kind, size_bytes: int) -> tuple[int, CleaningStats]:
    """Write a log and compact it; how many records it had, and what that did."""
    directory = tempfile.mkdtemp(prefix="fencepost-bench-")
    try:
        path = str(Path(directory) / "t-0")
        log = PartitionLog.open(OsDisk(), path, "t", 0, CONFIG, LoadLogParams(wall_ms=NOW_MS))
        count = fill(log, kind, size_bytes)
        stats = compact(log)
        log.close()
        return count, stats
    finally:
        shutil.rmtree(directory)


def main(mib: int = 64) -> None:
    """Print a table."""
    print(f"compaction, {mib} MiB of records, a tenth of the keys distinct, kernels:"
          f" {backend.name()}, {time.strftime('%Y-%m-%d')}")  # fmt: skip
    print(
        f"{'':16}{'records':>10}{'read':>10}{'written':>10}{'seconds':>9}{'MiB/s':>8}{'rec/s':>11}"
    )
    for kind in KINDS:
        count, stats = measure(kind, mib << 20)
        read, written = stats.bytes_read / (1 << 20), stats.bytes_written / (1 << 20)
        rate = stats.bytes_read / (1 << 20) / stats.seconds
        print(
            f"{kind.name:16}{count:10,}{read:10.1f}{written:10.1f}{stats.seconds:9.2f}{rate:8.1f}"
            f"{count / stats.seconds:11,.0f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=64)
    main(parser.parse_args().mib)
