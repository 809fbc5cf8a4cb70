"""Transactions beside Apache Kafka: how many a second, how long a commit takes, what they cost.

    python benchmarks/transactions/bench.py [--only load|ids] [--smoke] [...]

A controller and three brokers of each kind on this machine, whose cores they share; both clusters
run all the time and take turns. `--sync both` has Apache Kafka's brokers sync before they
acknowledge, as ours do; `--sync none` has neither do it. Load: transactions of so many records by
so many producers; "without" is the same with flush in the place of commit. Ids: transactional ids
are made, and the coordinator of a part of them is killed. Nothing is asserted. The aim is Apache
Kafka's own figure in every row.

"Waiting" says how many threads of the brokers were ready to run and had no core, on average: a row
in which that is near their number measures whom the system's scheduler gives the cores. So does
that of 64 producers of librdkafka with 10,000 records each: while a batch of an idempotent producer
is on its way and another waits behind it, `flush` has librdkafka (2.x) poll without a pause, with a
thread for each of the brokers. Some of up to 192 such threads are always ready; a broker of ours
does nearly all of its work in one, Apache Kafka's has eleven for requests alone by default.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.cluster import brokers
from benchmarks.transactions import ids, load
from fencepost.client.cluster import Cluster as Client

LOAD_HEADER = [
    *("client", "records", "producers", "", "tx/s", "p50 ms", "p99 ms", "CPU ms/tx"),
    *("without/s", "CPU ms without", "cost", "others' cores"),
    "waiting",
]
PARTS = ("load", "ids")
SYNC = {
    "both": {brokers.FENCEPOST: {}, brokers.APACHE: {"log.flush.interval.messages": "1"}},
    "none": {brokers.FENCEPOST: {"log.flush.before.ack": "false"}, brokers.APACHE: {}},
}
FEATURES = ("transaction.version=2",)
"""Of both: the harness's own Apache Kafka has it at 0 otherwise."""
STATE = {
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
"""Also of both: what they would be without the harness."""


def clusters_of(
    stack: contextlib.ExitStack, home: Path, given: argparse.Namespace
) -> dict[str, brokers.Quorum]:
    """A cluster of each kind that is wanted."""
    return {
        kind: stack.enter_context(
            brokers.cluster_of(kind, home, FEATURES, **STATE, **SYNC[given.sync][kind])
        )
        for kind in brokers.KINDS
        if kind in given.kinds.split(",")
    }


def show_load(given: argparse.Namespace) -> None:
    """Print transactions a second, times of commits, CPU, and what is left of the same without."""
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        clusters = clusters_of(stack, Path(home), given)
        for cluster in clusters.values():
            brokers.create(cluster, "t", 6)
        rows = []
        for client in given.clients.split(","):
            for kind in clusters:  # a JVM that has just started would be measured compiling
                measured(given, client, 10, 8, kind, clusters, rounds=1)
            for records in numbers(given.records):
                for producers in numbers(given.producers):
                    found = [
                        measured(given, client, records, producers, kind, clusters)
                        for kind in clusters
                    ]
                    rows += [one.cells() for one in found]
                    if len(found) == len(brokers.KINDS):
                        rows.append(Row.ratios(*found))
                    for row in rows[-len(found) - 1 :]:
                        print("  " + "  ".join(row), flush=True)
    print(peers.table(LOAD_HEADER, rows))


class Row(NamedTuple):
    """What one cluster did with one load, the same without transactions beside it."""

    client: str
    records: int
    producers: int
    kind: str
    rate: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    without: float
    cpu_without_ms: float
    others_cores: float
    waiting: float

    def cells(self) -> list[str]:
        """As a line of the table."""
        return [
            *self._named(self.kind),
            f"{self.rate:.1f}",
            f"{self.p50_ms:.1f}",
            f"{self.p99_ms:.1f}",
            f"{self.cpu_ms:.2f}",
            f"{self.without:.1f}",
            f"{self.cpu_without_ms:.2f}",
            f"{self.without / self.rate:.2f}x",
            f"{self.others_cores:.2f}",
            f"{self.waiting:.1f}",
        ]

    def ratios(self, other: Row) -> list[str]:
        """This one's figures over those of the other."""
        pairs = zip(self._figures(), other._figures(), strict=True)
        return [*self._named("ratio"), *(f"{one / two:.2f}" for one, two in pairs), "", "", ""]

    def _figures(self) -> tuple[float, ...]:
        of_commits = (self.rate, self.p50_ms, self.p99_ms, self.cpu_ms)
        return (*of_commits, self.without, self.cpu_without_ms)

    def _named(self, kind: str) -> list[str]:
        return [self.client, f"{self.records:,}", str(self.producers), kind]


def measured(
    given: argparse.Namespace,
    client: str,
    records: int,
    producers: int,
    kind: str,
    clusters: dict[str, brokers.Quorum],
    rounds: int | None = None,
) -> Row:
    """One row: transactions and the same without, in turns; medians of the rounds."""
    found: dict[bool, list[load.Load]] = {True: [], False: []}
    for _ in range(rounds or given.rounds):
        for transactional in (True, False):
            found[transactional].append(
                load.run(
                    brokers.bootstrap(clusters[kind]),
                    "t",
                    client=client,
                    producers=producers,
                    records=records,
                    seconds=given.seconds,
                    transactional=transactional,
                    cpu=functools.partial(used, clusters, kind),
                )
            )
    commits_ms = [ms for one in found[True] for ms in one.commits_ms]
    return Row(
        client,
        records,
        producers,
        kind,
        statistics.median(one.transactions_per_s for one in found[True]),
        statistics.median(commits_ms),
        peers.percentile(commits_ms, 99),
        statistics.median(one.cpu_ms for one in found[True]),
        statistics.median(one.transactions_per_s for one in found[False]),
        statistics.median(one.cpu_ms for one in found[False]),
        statistics.fmean(one.others_cores for one in (*found[True], *found[False])),
        statistics.fmean(one.waiting for one in (*found[True], *found[False])),
    )


def used(clusters: dict[str, brokers.Quorum], kind: str) -> load.Used:
    """CPU so far: of the brokers of this kind, and of what is no part of the benchmark."""
    running = [node for cluster in clusters.values() for node in cluster.nodes.values()]
    ours_s = sum(brokers.cpu_of(one.process.pid) for one in running if one.process is not None)
    ours_s += sum(os.times()[:2])
    fields = Path("/proc/stat").read_text().split(maxsplit=9)
    busy = sum(int(fields[place]) for place in (1, 2, 3, 6, 7))  # without idle, iowait and stolen
    others_s = busy / brokers.TICKS_PER_S - ours_s
    return load.Used(brokers.cpu_s(clusters[kind]), others_s, brokers.waited_s(clusters[kind]))


def show_ids(given: argparse.Namespace) -> None:
    """Print how fast ids are made, what they take in memory, and how long a failover takes."""
    rows = []
    with tempfile.TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        clusters = clusters_of(stack, Path(home), given)
        for kind, cluster in clusters.items():
            rows.append([kind, *ids_of(cluster, given, functools.partial(used, clusters, kind))])
            print("  " + "  ".join(rows[-1]), flush=True)
    header = ["", "ids", "made/s", "CPU ms each", "MB more in one broker", "of the killed one"]
    print(peers.table([*header, "served again ms", "CPU s of both", "others' cores"], rows))


def ids_of(
    cluster: brokers.Quorum, given: argparse.Namespace, cpu: Callable[[], load.Used]
) -> list[str]:
    """A cluster's cells; one of its brokers is killed."""
    servers = brokers.bootstrap(cluster)
    ids.make(servers, ids.names(ids.WARM_UP))
    before_mb, before, began = brokers.resident_mb(cluster), cpu(), time.monotonic()
    rate = ids.make(servers, ids.names(given.ids))
    made, took_s, after_mb = cpu(), time.monotonic() - began, brokers.resident_mb(cluster)
    with Client(servers) as client:
        groups = ids.coordinators(client, ids.names(given.ids))
        node, keys = max(groups.items(), key=lambda one: len(one[1]))
        cluster.nodes[node.node_id].kill()
        killed = cpu()
        loaded_ms = ids.wait_until_loaded(client, keys)
        loaded_s = cpu().brokers_s - killed.brokers_s
    return [
        f"{given.ids:,}",
        f"{rate:.0f}",
        f"{(made.brokers_s - before.brokers_s) * 1000 / given.ids:.2f}",
        f"{after_mb - before_mb:.0f}",
        f"{len(keys):,}",
        f"{loaded_ms:.0f}",
        f"{loaded_s:.2f}",
        f"{max(0.0, (made.others_s - before.others_s) / took_s):.2f}",
    ]


def numbers(text: str) -> list[int]:
    """ "1,8,64" as numbers."""
    return [int(word) for word in text.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--smoke", action="store_true", help="small parameters: does it run?")
    parser.add_argument("--sync", choices=sorted(SYNC), default="both")
    parser.add_argument("--kinds", default=",".join(brokers.KINDS))
    parser.add_argument("--clients", default="confluent,ours")
    parser.add_argument("--records", default="1,100,10000")
    parser.add_argument("--producers", default="1,8,64")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ids", type=int, default=100_000)
    given = parser.parse_args()
    if given.smoke:
        given.records, given.producers, given.seconds = "1,100", "1,4", 2.0
        given.rounds, given.ids = 1, 1_000
    parts = given.only or PARTS
    if "load" in parts:
        show_load(given)
    if "ids" in parts:
        show_ids(given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
