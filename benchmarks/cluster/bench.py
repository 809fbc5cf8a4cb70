"""Brokers that replicate: beside Apache Kafka, and what followers cost while nothing is written.

    python benchmarks/cluster/bench.py [--only writes|failover|idle|partitions] [...]

Writes and failover: a controller and three brokers of each kind on this machine, whose cores they
share; both clusters run all the time and take turns. Fencepost's brokers and followers sync before
they acknowledge, Apache Kafka's do not. Idle: followers of Fencepost's alone, and then with a
record now and then. Nothing is asserted. The aim is a killed process failed over in under a second,
and an idle round of at most 2 ms of CPU with 1,000 partitions.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.cluster import brokers, idle_rounds, partitions, writes

PARTS = ("writes", "failover", "idle", "partitions")
SIZES_BYTES = (100, 1_000, 16_000)


def show_idle(counts: list[int], seconds: float, records: int, per_s: float) -> None:
    """Print what followers cost that have everything, and what a record now and then costs."""
    rows = []
    for one in idle_rounds.processes(counts, seconds, records, per_s):
        rows.append(
            [
                f"{one.partitions:,}",
                f"{idle_rounds.machine_us(one.partitions):.0f}",
                f"{one.leader_ms:.2f} ({one.leader_ms - one.bare_leader_ms:.2f})",
                f"{one.follower_ms:.2f} ({one.follower_ms - one.bare_follower_ms:.2f})",
                f"{one.leader_ms_per_record:.2f}",
                f"{one.follower_ms_per_record:.2f}",
                f"{one.leader_mb:.0f}, {one.follower_mb:.0f}",
                f"{one.load:.0f}",
            ]
        )
        print(f"  {rows[-1]}", flush=True)
    idle = ["partitions", "machine us", "leader ms (of partitions)", "follower ms (of partitions)"]
    print(peers.table([*idle, "leader ms/record", "follower ms/record", "MB", "load"], rows))


def show_partitions(kinds: list[str], counts: list[int], seconds: float, total_mb: float) -> None:
    """Print what partitions cost both kinds of clusters, which run one after the other."""
    rows = []
    for count in counts:
        for kind in kinds:
            with tempfile.TemporaryDirectory() as home:
                one = partitions.measure(kind, count, Path(home), seconds, total_mb)
            load = os.getloadavg()[0]
            rows.append(
                [
                    kind,
                    f"{count:,}",
                    f"{one.made_s:.1f}",
                    f"{one.made_cpu_s:.1f}",
                    f"{one.idle_ms:.1f}",
                    f"{one.mb_per_s:.1f}",
                    f"{one.cpu_ms_per_mb:.0f}",
                    f"{one.resident_mb:.0f}",
                    f"{one.open_files:,}",
                    f"{one.moved_s:.1f}",
                    f"{one.restarted_s:.1f} / {one.restart_cpu_s:.1f}",
                    f"{load:.0f}",
                ]
            )
            print(f"  {rows[-1]}", flush=True)
    headings = ["", "partitions", "made s", "CPU s", "idle round ms", "MB/s", "CPU ms per MB"]
    print(peers.table([*headings, "MB", "files", "moved s", "restart s / CPU s", "load"], rows))


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
        found: dict[str, list[writes.Failover]] = {kind: [] for kind in clusters}
        for number in range(times):
            for kind, cluster in clusters.items():
                one = writes.failover(cluster, "t", silently=silently)
                found[kind].append(one)
                print(
                    f"  {number + 1} of {kind}: confluent {one.confluent_ms:.0f} ms,"
                    f" fencepost.client {one.fencepost_ms:.0f} ms",
                    flush=True,
                )
    rows = []
    for kind, all_of_it in found.items():
        for client, ms in (
            ("confluent", [one.confluent_ms for one in all_of_it]),
            ("fencepost.client", [one.fencepost_ms for one in all_of_it]),
        ):
            middle, late = statistics.median(ms), peers.percentile(ms, 99)
            rows.append([kind, client, str(len(ms)), f"{middle:.0f}", f"{late:.0f}"])
    what = "silent" if silently else "killed"
    print(peers.table([what, "client", "times", "p50 ms", "p99 ms"], rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--partitions", default="10,1000,10000")
    parser.add_argument("--kind", choices=brokers.KINDS, action="append")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--records", type=int, default=1_000)
    parser.add_argument("--per-second", type=float, default=50.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--mb", type=float, default=30.0)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--silent", type=int, default=3)
    given = parser.parse_args()
    parts = given.only or PARTS
    counts = [int(text) for text in given.partitions.split(",")]
    if "writes" in parts:
        show_writes(given.rounds, given.count, given.mb)
    if "failover" in parts:
        for times, silently in ((given.kills, False), (given.silent, True)):
            if times:
                show_failover(times, silently)
    if "idle" in parts:
        show_idle(counts, given.seconds, given.records, given.per_second)
    if "partitions" in parts:
        show_partitions(given.kind or list(brokers.KINDS), counts, given.seconds, given.mb)
    return 0


if __name__ == "__main__":
    sys.exit(main())
