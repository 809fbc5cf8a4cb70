"""The quorum beside Apache Kafka's: writes, failover, and what it takes to load the metadata.

    python benchmarks/quorum/bench.py [--only writes|failover|load|simulator] [...]

Writes: three controllers, 1, 8 and 64 writers at a time. Failover: three controllers, the leader
killed over and over, both kinds in turn. Load: a snapshot of 100,000 partitions, by this project as
`serve` does it, by Apache Kafka in its metadata shell, whose own start is measured on a snapshot
of one topic and taken off. Everything on this machine, so the controllers share its cores.
Apache Kafka's leader waits up to 25 ms for more records before it appends (append.linger), which is
what a single writer sees; ours appends at once. Both sync what they append before it counts.
Nothing is asserted.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.interop import apache

from benchmarks import peers
from benchmarks.quorum import failover, image_load, voters, writes

PARTS = ("writes", "failover", "load", "simulator")


def shell_s(snapshot: Path) -> float:
    """Seconds until Apache Kafka's metadata shell has read the snapshot and said what is in it."""
    started = time.perf_counter()
    apache.run_shell(snapshot, "ls", "/image/topics")
    return time.perf_counter() - started


def apache_load_s(partitions: int, per_topic: int, rounds: int) -> float:
    """Seconds Apache Kafka takes to make an image of the snapshot, without those of its start."""
    with tempfile.TemporaryDirectory() as home:
        found = {}
        for count in (per_topic, partitions):
            directory = Path(home) / str(count)
            directory.mkdir()
            image_load.write_snapshot(directory, count, per_topic)
            (snapshot,) = directory.glob("*.checkpoint")
            found[count] = statistics.median(shell_s(snapshot) for _ in range(rounds))
    return found[partitions] - found[per_topic]


def show_load(partitions: int, per_topic: int, rounds: int) -> None:
    """Print what it takes to load a snapshot."""
    ours = image_load.measure(partitions, per_topic, rounds)
    row = ["fencepost", f"{ours['load_s']:.2f}", f"{ours['grown_mb_per_10k']:.1f}"]
    theirs_s = apache_load_s(partitions, per_topic, rounds)
    other = [f"apache-{apache.KAFKA_VERSION} (shell)", f"{theirs_s:.2f}", "-"]
    headings = ["of", "loaded s", "MB per 10,000", "ratio"]
    rows = [[*row, f"{ours['load_s'] / theirs_s:.2f}"], [*other, "1.00"]]
    print(f"\n{partitions} partitions, {ours['file_mb']:.1f} MB:\n{peers.table(headings, rows)}")


def show_simulator(seeds: int) -> None:
    """Print what `fencepost sim run` says of itself."""
    command = [sys.executable, "-m", "fencepost.cli.main", "sim", "run", "--seeds", str(seeds)]
    subprocess.run(command, check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement of writes")
    parser.add_argument("--rounds", type=int, default=3, help="of writes and of loading")
    parser.add_argument("--kills", type=int, default=50, help="of leaders of this project")
    parser.add_argument("--apache-kills", type=int, default=50, help="of leaders of Apache Kafka")
    parser.add_argument("--fetch-timeout-ms", type=int, default=2000, help="for failover")
    parser.add_argument("--silently", action="store_true", help="stop leaders (SIGSTOP)")
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=100, help="of the simulator")
    parser.add_argument("--seed", type=int, default=595, help="of the moments of kills")
    options = parser.parse_args()
    chosen = options.only or PARTS
    if "writes" in chosen:
        rows = writes.compare((1, 8, 64), options.seconds, options.rounds)
        print(f"\nmetadata writes, three controllers:\n{peers.table(writes.HEADINGS, rows)}")
    if "failover" in chosen:
        kills = dict(zip(voters.KINDS, (options.kills, options.apache_kills), strict=True))
        found = failover.compare(kills, options.fetch_timeout_ms, options.seed, options.silently)
        rows = failover.rows(found)
        timeouts = f"election timeout 1000 ms, fetch timeout {options.fetch_timeout_ms} ms"
        print(f"\nleader failover, {timeouts}:\n{peers.table(failover.HEADINGS, rows)}")
    if "load" in chosen:
        show_load(options.partitions, 20, options.rounds)
    if "simulator" in chosen:
        show_simulator(options.seeds)


if __name__ == "__main__":
    main()
