"""Brokers that replicate: beside Apache Kafka, and what followers cost while nothing is written.

    python benchmarks/cluster/bench.py [--only writes|failover|idle] [...]

Writes and failover: a controller and three brokers of each kind on this machine, whose cores they
share; both clusters run all the time and take turns. Fencepost's brokers and followers sync before
they acknowledge, Apache Kafka's do not. Idle: followers of Fencepost's alone. Nothing is asserted.
The aim is a killed process failed over in under a second, and an idle round of at most 2 ms of CPU
with 1,000 partitions.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.cluster import brokers, idle_rounds, writes

PARTS = ("writes", "failover", "idle")
SIZES_BYTES = (100, 1_000, 16_000)


def show_idle(counts: list[int], seconds: float) -> None:
    """Print what followers cost that have everything."""
    rows = [
        [
            f"{one.partitions:,}",
            f"{idle_rounds.machine_us(one.partitions):.0f}",
            f"{one.follower_ms:.2f}",
            f"{one.leader_ms:.2f}",
        ]
        for one in idle_rounds.processes(counts, seconds)
    ]
    print(peers.table(["partitions", "machine us", "follower ms", "leader ms"], rows))


def show_writes(rounds: int, count: int, total_mb: float) -> None:
    """Print start, latency, throughput and memory of both kinds."""
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        clusters, started_s = {}, {}
        for kind in brokers.KINDS:
            began = time.monotonic()
            clusters[kind] = stack.enter_context(brokers.cluster_of(kind, Path(home)))
            brokers.create(clusters[kind], "t", 6)
            started_s[kind] = time.monotonic() - began
            writes.latencies_ms(clusters[kind], "t", 50)
        latencies: dict[str, list[float]] = {kind: [] for kind in clusters}
        through: dict[tuple[str, int], list[writes.Throughput]] = {}
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", flush=True)
            for kind, cluster in clusters.items():
                latencies[kind] += writes.latencies_ms(cluster, "t", count)
                for size in SIZES_BYTES:
                    found = writes.throughput(cluster, "t", size, total_mb)
                    through.setdefault((kind, size), []).append(found)
        rows = [
            [
                kind,
                f"{started_s[kind]:.1f}",
                f"{statistics.median(latencies[kind]):.2f}",
                f"{peers.percentile(latencies[kind], 99):.2f}",
                f"{brokers.resident_mb(cluster):.0f}",
            ]
            for kind, cluster in clusters.items()
        ]
        print(peers.table(["", "formatted, started, topic s", "p50 ms", "p99 ms", "MB"], rows))
        rows = [
            [
                kind,
                f"{size:,}",
                f"{statistics.median(one.mb_per_s for one in found):.1f}",
                f"{1000 * statistics.median(one.cpu_s_per_mb for one in found):.1f}",
            ]
            for (kind, size), found in sorted(through.items(), key=lambda one: one[0][1])
        ]
        print(peers.table(["", "record bytes", "MB/s", "CPU ms per MB, three brokers"], rows))


def show_failover(times: int, silently: bool) -> None:
    """Print how long a write waits when the leader ends."""
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        clusters = {
            kind: stack.enter_context(brokers.cluster_of(kind, Path(home)))
            for kind in brokers.KINDS
        }
        for cluster in clusters.values():
            brokers.create(cluster, "t", 1)
        found: dict[str, list[float]] = {kind: [] for kind in clusters}
        for number in range(times):
            for kind, cluster in clusters.items():
                found[kind].append(writes.failover_ms(cluster, "t", silently=silently))
                print(f"  {number + 1} of {kind}: {found[kind][-1]:.0f} ms", flush=True)
    what = "silent" if silently else "killed"
    rows = [
        [kind, str(len(ms)), f"{statistics.median(ms):.0f}", f"{peers.percentile(ms, 99):.0f}"]
        for kind, ms in found.items()
    ]
    print(peers.table([what, "times", "p50 ms", "p99 ms"], rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--partitions", default="10,1000,10000")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--mb", type=float, default=30.0)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--silent", type=int, default=3)
    given = parser.parse_args()
    parts = given.only or PARTS
    if "writes" in parts:
        show_writes(given.rounds, given.count, given.mb)
    if "failover" in parts:
        for times, silently in ((given.kills, False), (given.silent, True)):
            if times:
                show_failover(times, silently)
    if "idle" in parts:
        show_idle([int(text) for text in given.partitions.split(",")], given.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
