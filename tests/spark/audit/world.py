"""Replicas' log directories on the real disk, small and with everything in them; damage to them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fencepost.batch.header import read_header
from fencepost.log.checkpoints import encode_lines
from fencepost.log.disk import OsDisk
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.log.names import offset_file
from fencepost.spark.audit.auditing import Audit, Outcome, Settings, Source
from fencepost.spark.audit.model import Finding
from fencepost.wire.types import Uuid

from ...log.data_dir import write_transactions
from ...log.helpers import NOW_MS, append, config, make_batch

CONFIG = config(internal_segment_bytes=900, index_interval_bytes=150)
HIGH_WATERMARKS = {("orders", 0): 24, ("orders", 1): 36, ("other", 0): 24}
CLEAN = ".kafka_cleanshutdown"


def make_replica(path: Path, node_id: int = 1) -> Path:
    """A log directory that was closed cleanly: transactions, several segments and epochs."""
    disk, root = OsDisk(), str(path)
    path.mkdir()
    directory_id = Uuid(bytes(14) + bytes([node_id, 7]))
    format_log_dir(disk, root, cluster_id="c", node_id=node_id, directory_id=directory_id)
    log_dir = LogDir.open(disk, root)
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
    log_dir.close(broker_epoch=5, high_watermarks=HIGH_WATERMARKS)
    return path


def copy_replica(first: Path, node_id: int) -> Path:
    """The same logs as another node's."""
    path = first.parent / str(node_id)
    shutil.copytree(first, path)
    directory_id = Uuid(bytes(14) + bytes([node_id, 7]))
    (path / "meta.properties").unlink()
    format_log_dir(OsDisk(), str(path), cluster_id="c", node_id=node_id, directory_id=directory_id)
    return path


class InProcess:
    """Runs tasks one after the other, here."""

    def __init__(self) -> None:
        self.titles: list[str] = []

    def run(self, tasks: Sequence[Any], title: str) -> list[Any]:
        self.titles.append(title)
        return [task.run() for task in tasks]


def audit(*places: Path | Source, runner: Any = None, **settings: Any) -> Outcome:
    settings.setdefault("range_offsets", 8)
    settings.setdefault("pause", lambda _: None)
    sources = [one if isinstance(one, Source) else Source(str(one)) for one in places]
    return Audit(runner or InProcess(), sources, Settings(**settings)).run()


def problems(*places: Path | Source, **settings: Any) -> list[Finding]:
    return [one for one in audit(*places, **settings).findings if one.is_problem]


def only(*places: Path | Source, **settings: Any) -> Finding:
    found = problems(*places, **settings)
    assert len(found) == 1, found
    return found[0]


def segment(replica: Path, partition: str, base: int, suffix: str = ".log") -> Path:
    return replica / partition / offset_file(base, suffix)


def batches_of(path: Path) -> list[int]:
    """Where the batches of a segment begin."""
    data, position, found = path.read_bytes(), 0, []
    while position < len(data):
        found.append(position)
        position += read_header(data, position).size_bytes
    return found


def change(path: Path, edit: Callable[[bytearray], Any]) -> None:
    data = bytearray(path.read_bytes())
    edit(data)
    path.write_bytes(data)


def flip(path: Path, position: int, mask: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)


def checkpoint(replica: Path, name: str, *lines: str) -> None:
    (replica / name).write_bytes(encode_lines(lines))
