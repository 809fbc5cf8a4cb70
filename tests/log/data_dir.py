"""A small log directory with everything in it, for tests of the tools that look at one."""

from __future__ import annotations

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.records import build_batch
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.log.partition_log import PartitionLog
from fencepost.sim.disk import SimDisk
from fencepost.wire.types import Uuid

from .helpers import NOW_MS, append, config, make_batch

ROOT = "/data"
CONFIG = config(internal_segment_bytes=900, index_interval_bytes=150)
TXN = f"{ROOT}/orders-0"
PLAIN = f"{ROOT}/orders-1"
EPOCHS = f"{ROOT}/other-0"


def make_dir() -> SimDisk:
    """A log directory that was closed cleanly: transactions, several segments and epochs."""
    disk = SimDisk()
    format_log_dir(disk, ROOT, cluster_id="c", node_id=1, directory_id=Uuid(bytes(15) + b"\7"))
    log_dir = LogDir.open(disk, ROOT)
    orders, other = Uuid(bytes(15) + b"\1"), Uuid(bytes(15) + b"\2")
    logs = [
        log_dir.create(topic, partition, topic_id, CONFIG, wall_ms=NOW_MS)
        for topic, partition, topic_id in (
            ("orders", 0, orders), ("orders", 1, orders), ("other", 0, other),
        )
    ]  # fmt: skip
    write_transactions(logs[0])
    for turn in range(12):
        append(logs[1], make_batch(3, 40, timestamp_ms=1000 + turn * 7 % 5))
        append(logs[2], make_batch(2, 60, timestamp_ms=2000 + turn), epoch=turn // 4)
    logs[2].advance_start_offset(3)
    log_dir.close(
        broker_epoch=5,
        high_watermarks={("orders", 0): 20, ("orders", 1): 36, ("other", 0): 24},
    )
    return disk


def write_transactions(log: PartitionLog) -> None:
    """Three producers with transactions across segments; one stays open."""
    sequences = dict.fromkeys((1, 2, 3), 0)

    def write(producer: int) -> None:
        sequence = sequences[producer]
        sequences[producer] += 2
        batch = build_batch(
            [(b"key", b"value" * 20)] * 2,
            timestamp_ms=1000 + log.end_offset,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        append(log, batch)

    def end(producer: int, committed: bool) -> None:
        marker = build_end_txn_marker(
            committed=committed,
            coordinator_epoch=2,
            producer_id=producer,
            producer_epoch=0,
            timestamp_ms=1000 + log.end_offset,
        )
        append(log, marker)

    write(3)
    for turn in range(4):
        write(1)
        write(2)
        end(1, committed=turn % 2 == 0)
        if turn % 2:
            end(2, committed=False)


def files_of(disk: SimDisk, directory: str = ROOT) -> list[str]:
    """All files below, the lock's left out."""
    found: list[str] = []
    for name in disk.list(directory):
        path = f"{directory}/{name}"
        if disk.is_dir(path):
            found += files_of(disk, path)
        elif name != ".lock":
            found.append(path)
    return found


def change(disk: SimDisk, path: str, content: bytes) -> None:
    """Give a file another content, made if it is not there."""
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write_at(content, 0)
    file.close()


def flip(disk: SimDisk, path: str, position: int, mask: int = 0xFF) -> None:
    """Change one byte of a file; a negative position counts from the end."""
    content = bytearray(disk.read(path))
    content[position] ^= mask
    change(disk, path, bytes(content))
