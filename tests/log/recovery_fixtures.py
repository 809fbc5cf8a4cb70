"""A log of three epochs and a producer, to be damaged while it is closed and opened again."""

from __future__ import annotations

from fencepost.log.config import LogConfig
from fencepost.log.names import offset_file
from fencepost.log.partition_log import PartitionLog
from fencepost.sim.disk import SimDisk
from fencepost.wire.types import Uuid

from .helpers import NOW_MS, append, config, contents, make_batch, open_log

SMALL = config(internal_segment_bytes=700, index_interval_bytes=150)
TOPIC_ID = Uuid(bytes(15) + b"\1")
LOG = "/data/t-0"


def filled_disk(
    batches: int = 30, *, close: bool = True, log_config: LogConfig = SMALL
) -> tuple[SimDisk, PartitionLog]:
    """A disk with a log of three epochs and a producer, closed cleanly or flushed."""
    disk = SimDisk()
    disk.mkdir("/data")
    disk.sync_dir("/")
    log = open_log(disk, LOG, log_config, topic_id=TOPIC_ID)
    for at in range(batches):
        batch = make_batch(
            at % 3 + 1, 40, timestamp_ms=NOW_MS + at, fill=at,
            producer_id=9, producer_epoch=0, base_sequence=sum(i % 3 + 1 for i in range(at)),
        )  # fmt: skip
        append(log, batch, epoch=at // 10)
    if close:
        log.close()
    else:
        log.flush()
    return disk, log


def reopen(disk: SimDisk, **kw) -> PartitionLog:
    """The log, opened again."""
    return open_log(disk, LOG, SMALL, **kw)


def set_content(disk: SimDisk, name: str, data: bytes) -> None:
    """Give a file of the log another content."""
    disk.write_atomic(f"{LOG}/{name}", data)


def segment_name(log: PartitionLog, at: int, suffix: str = ".log") -> str:
    """A file of the segment at that place."""
    return offset_file(log.segment_base_offsets[at], suffix)


def all_batches(disk: SimDisk) -> list[tuple[int, bytes]]:
    """Base offset and bytes of every batch, as recovery finds them."""
    log = reopen(disk)
    found = contents(log)
    disk.process_death()
    return found
