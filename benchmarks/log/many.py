"""Many idle partitions: what they take to make and to open, and what each keeps in memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from fencepost.log.config import LogConfig
from fencepost.log.disk import OsDisk
from fencepost.log.log_dir import LogDir
from fencepost.log.meta import format_log_dir
from fencepost.wire.types import Uuid

ROOT = Path(__file__).resolve().parents[2]
CREATED_AT_ONCE = 5_000
"""Partitions; a controller refuses requests that come to more than 10,000 records."""
TIMEOUT_S = 120
TOPIC_ID = Uuid((200).to_bytes(16, "big"))


def _figures(name: str, made: dict, opened: dict, crashed: dict, count: int) -> list[str]:
    return [
        name,
        f"{made['s']:.1f}",
        f"{opened['s']:.1f}",
        f"{crashed['s']:.1f}",
        f"{opened['mb']:.0f}",
        f"{opened['more_mb'] * 1e3 / count:.1f}",
        f"{opened['files']}",
    ]


def through_log_dir(directory: Path, count: int) -> list[str]:
    """Each life in a process of its own, for its memory to be told."""
    path = directory / "data"
    format_log_dir(OsDisk(), str(path), cluster_id="c", node_id=1, directory_id=TOPIC_ID)
    made, opened, crashed = (
        json.loads(
            subprocess.run(
                [sys.executable, __file__, str(path), str(count), how],
                check=True,
                capture_output=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            ).stdout
        )
        for how in ("clean", "crash", "clean")
    )
    return _figures(f"{count:,} in a LogDir", made, opened, crashed, count)


def _life(path: str, count: int, how: str) -> dict[str, float]:
    process = psutil.Process()
    before = process.memory_info().rss
    config = LogConfig.from_props({})
    began = time.perf_counter()
    log_dir = LogDir.open(OsDisk(), path)
    for partition in range(count):
        log_dir.create("t", partition, TOPIC_ID, config, wall_ms=1)
    took = time.perf_counter() - began
    rss = process.memory_info().rss
    files = process.num_fds()
    if how == "clean":
        log_dir.close()
    return {"s": took, "mb": rss / 1e6, "more_mb": (rss - before) / 1e6, "files": files}


def through_serve(count: int) -> list[str]:
    """So many partitions in a broker."""
    from fencepost.testing import Cluster

    with Cluster(faults=False, config={"offsets.topic.num.partitions": "1"}) as cluster:
        before = psutil.Process(cluster.pid).memory_info().rss
        began = time.perf_counter()
        _create(cluster.bootstrap_servers, count)
        _wait_for(cluster, count)
        made = {"s": time.perf_counter() - began}
        cluster.stop()
        opened = _start(cluster, before)
        cluster.kill()
        crashed = _start(cluster, before)
    return _figures(f"{count:,} in a broker", made, opened, crashed, count)


def _start(cluster, before: int) -> dict[str, float]:
    began = time.perf_counter()
    cluster.start()
    took = time.perf_counter() - began
    process = psutil.Process(cluster.pid)
    rss = process.memory_info().rss
    more_mb = (rss - before) / 1e6
    return {"s": took, "mb": rss / 1e6, "more_mb": more_mb, "files": process.num_fds()}


def _create(bootstrap: str, count: int) -> None:
    from benchmarks.broker.frames import create_topic

    for first in range(0, count, CREATED_AT_ONCE):
        create_topic(bootstrap, f"t{first}", min(CREATED_AT_ONCE, count - first))


def _wait_for(cluster, count: int) -> None:
    """Until all of them have their directories."""
    deadline = time.monotonic() + TIMEOUT_S
    while len(os.listdir(cluster.data_dir)) < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"{count} partitions were not made in {TIMEOUT_S} s")
        time.sleep(0.05)


if __name__ == "__main__":
    found = _life(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)
