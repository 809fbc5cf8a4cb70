"""Logs of many small segments on a simulated disk."""

from __future__ import annotations

from fencepost.log.partition_log import PartitionLog
from fencepost.sim.disk import SimDisk

from .helpers import append, config, make_batch, open_log

SMALL = {"internal_segment_bytes": 600, "index_interval_bytes": 200}


def data_disk() -> SimDisk:
    """A disk with the directory /data."""
    disk = SimDisk()
    disk.mkdir("/data")
    disk.sync_dir("/")
    return disk


def filled(disk, count: int = 30, directory: str = "/data/t-0", **props) -> PartitionLog:
    """A log of `count` batches with 1 to 4 records each, in many small segments."""
    log = open_log(disk, directory, config(**{**SMALL, **props}))
    for at in range(count):
        append(log, make_batch(at % 4 + 1, 30, timestamp_ms=1000 + at * 10), epoch=at // 10)
    return log
