"""CPU of a cold start: until the ready file is written, and until the first record is acknowledged.

    python benchmarks/startup/cpu.py [--rounds R] [--against SRC]

Each start is `fencepost serve` in a process of its own and a fresh directory. A raw client makes a
topic and produces a record to it. SRC is the `src` of another checkout (installed in place, for its
C extensions), whose starts take turns with those of this one. Told are least and median.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import psutil

from benchmarks import peers
from benchmarks.broker.frames import create_topic, write_once
from benchmarks.broker.pipes import cpu_s

PATIENCE_S = 60.0
POLL_S = 0.002
TOPIC = "first"
SERVE = "import sys; from fencepost.cli.main import main; sys.exit(main())"


class Cost(NamedTuple):
    """Of one start; CPU is that of the node's process, all threads, from its beginning."""

    ready_ms: float
    acknowledged_ms: float
    resident_mb: float


def start(source: Path) -> Cost:
    """A node of these sources: from nothing to its first record."""
    with tempfile.TemporaryDirectory() as directory:
        ready = Path(directory, "ready")
        options = ["--data-dir", f"{directory}/data", "--listen", "127.0.0.1:0"]
        node = subprocess.Popen(
            [sys.executable, "-c", SERVE, "serve", *options, "--ready-file", str(ready)],
            env={**os.environ, "PYTHONPATH": str(source)},
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline_s = time.monotonic() + PATIENCE_S
            while not ready.exists():
                assert node.poll() is None and time.monotonic() < deadline_s, "it does not start"
                time.sleep(POLL_S)
            ready_s, bootstrap = cpu_s(node.pid), ready.read_text().strip()
            create_topic(bootstrap, TOPIC, 1)
            write_once(bootstrap, TOPIC, 1, 0)
            acknowledged_s = cpu_s(node.pid)
            resident_mb = psutil.Process(node.pid).memory_info().rss / 1e6
        finally:
            node.terminate()
            node.wait()
    return Cost(ready_s * 1e3, acknowledged_s * 1e3, resident_mb)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--against", type=Path, metavar="SRC")
    options = parser.parse_args()
    sources = {"here": peers.ROOT / "src"}
    if options.against is not None:
        sources[str(options.against)] = options.against.resolve()
    costs: dict[str, list[Cost]] = {name: [] for name in sources}
    for number in range(options.rounds + 1):
        for name, source in sources.items():
            cost = start(source)
            if number:  # the first makes bytecode, where there is none
                costs[name].append(cost)
    rows = [
        [name, *(f"{min(column):.0f} / {statistics.median(column):.0f}" for column in zip(*taken))]
        for name, taken in costs.items()
    ]
    headings = ["sources", "ready, CPU ms", "first record, CPU ms", "resident MB"]
    print(peers.table(headings, rows))
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
