"""Rows per second from and to Kafka, and their cost: ours, Spark's own connector, and a ceiling.

    python benchmarks/spark/bench.py [read] [write] [--rows N] [--rounds R] [--sizes 100,1000]
                                     [--partitions 1,12] [--codecs none,lz4,zstd] [--minutes M]

All in one session on one broker, taking turns. `ceiling` is a Python data source of memory, and a
Python sink that keeps nothing (`ceiling.py`): what any Python source or sink can reach at best.
`kafka` is Spark's JVM connector, left out with a word where Maven Central is out of reach. Reads
end in Spark's noop sink; writes take rows that are made as they are written (`none`: only made).
CPU is that of the JVM and of Python workers: on a machine that does other things besides, it is the
number to compare, and the one that `of the ceiling` and `times kafka` compare. Spark ends Python
workers that were idle for a minute, and to start them takes a second of CPU however much they read
then: so every run comes right behind one of a few rows, whose cost is `s CPU to start`.

Every table has its share of the minutes: rounds end when it is used up, and a table that no time is
left for is left out with a word.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.spark.session import connector_jars, fill, frame, jvm_pid, session, topic
from benchmarks.spark.usage import Usage, measure, median

WRITE_TASKS = 4
WARM_UP_ROUNDS = 1
"""Of the first table of reads and of writes: the JVM compiles what is used."""
SHARES = {100: 1, 1000: 3}
"""By sizes of values: of how many rows one is taken, so that tables take about the same time."""


class Case(NamedTuple):
    """One table."""

    rows: int
    size_bytes: int
    partitions: int
    codec: str

    @property
    def few(self) -> int:
        """Rows of a run that hardly does more than start."""
        return max(self.partitions, WRITE_TASKS)

    @property
    def title(self) -> str:
        return (
            f"{self.rows:,} rows, values of {self.size_bytes} B, {self.partitions} partitions, "
            f"{self.codec}"
        )


class Pair(NamedTuple):
    """A run of few rows, which starts what has to be started, and one of all of them."""

    start: Usage
    whole: Usage


Runs = dict[str, Callable[[int], None]]


def case_of(rows: int, size_bytes: int, partitions: int, codec: str) -> Case:
    """As many rows as tables of that size have, with equal shares for all partitions."""
    share = max(1, rows // SHARES.get(size_bytes, 1) // partitions)
    return Case(share * partitions, size_bytes, partitions, codec)


def read(spark: Any, name: str, options: dict[str, str]) -> None:
    spark.read.format(name).options(**options).load().write.format("noop").mode("overwrite").save()


def reads(spark: Any, servers: str, case: Case, name: str) -> Runs:
    """What to measure, by the name of the source."""
    fill(servers, name, case.partitions, case.rows, case.size_bytes, case.codec)

    def memory(rows: int) -> None:
        options = {"rows": rows, "size": case.size_bytes, "partitions": case.partitions}
        read(spark, "ceiling", {key: str(value) for key, value in options.items()})

    def kafka(source: str, rows: int) -> None:
        ends = {str(number): rows // case.partitions for number in range(case.partitions)}
        options = {"subscribe": name, "endingOffsets": json.dumps({name: ends})}
        read(spark, source, {"kafka.bootstrap.servers": servers, **options})

    return {"ceiling": memory} | {one: partial(kafka, one) for one in ("fencepost", "kafka")}


def writes(spark: Any, servers: str, case: Case, name: str) -> Runs:
    """What to measure, by the name of the sink."""

    def write(sink: str, options: dict[str, str], rows: int) -> None:
        writer = frame(spark, rows, case.size_bytes, WRITE_TASKS).write.format(sink)
        writer.options(**options).mode("overwrite" if sink == "noop" else "append").save()

    kafka = {
        "kafka.bootstrap.servers": servers,
        "topic": name,
        "kafka.compression.type": case.codec,
    }
    once = kafka | {"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": name}
    return {
        "none": partial(write, "noop", {}),
        "ceiling": partial(write, "ceiling", {}),
        "fencepost": partial(write, "fencepost", kafka),
        "fencepost, exactly once": partial(write, "fencepost", once),
        "kafka": partial(write, "kafka", kafka),
    }


BENCHES = {"read": reads, "write": writes}


def table(case: Case, taken: dict[str, list[Pair]]) -> str:
    """Medians of the rounds; CPU also beside the ceiling's and that of Spark's own connector."""
    starts = {one: median(pair.start for pair in pairs) for one, pairs in taken.items()}
    whole = {one: median(pair.whole for pair in pairs) for one, pairs in taken.items()}
    cpu_us = {one: used.spark_cpu_s / case.rows * 1e6 for one, used in whole.items()}
    lines = []
    for name, used in whole.items():
        rate = case.rows / used.wall_s / 1e6
        jar = f"{cpu_us['kafka'] / cpu_us[name]:.2f}" if "kafka" in cpu_us else ""
        lines.append(
            [
                name,
                f"{rate:.2f}",
                f"{rate * case.size_bytes:.0f}",
                f"{cpu_us[name]:.2f}",
                f"{cpu_us['ceiling'] / cpu_us[name]:.2f}",
                jar,
                f"{used.broker_cpu_s / case.rows * 1e6:.2f}",
                f"{starts[name].spark_cpu_s:.2f}",
                f"{used.worker_mb:.0f}",
            ]
        )
    titles = ["", "M rows/s", "MB/s", "µs CPU a row", "of the ceiling", "times kafka"]
    titles += ["µs broker CPU", "s CPU to start", "MB worker"]
    return peers.table(titles, lines)


def run_case(
    spark: Any, peer: peers.Peer, what: str, case: Case, rounds: range, until: float, jar: bool
) -> dict[str, list[Pair]]:
    """Interleaved rounds, by the name of what took part; those below 1 warm up and do not count.
    After `until` (monotonic) none begins but the first that counts."""
    with topic(peer.bootstrap, case.partitions) as name:
        runs = BENCHES[what](spark, peer.bootstrap, case, name)
        if not jar:
            del runs["kafka"]
        taken: dict[str, list[Pair]] = {one: [] for one in runs}
        for number in rounds:
            if number > 1 and time.monotonic() > until:
                break
            print(f"{what}: {case.title}, round {number} of {rounds[-1]}", file=sys.stderr)
            for one, run in runs.items():
                parts = [partial(run, count) for count in (case.few, case.rows)]
                pair = Pair(*(measure(jvm_pid(spark), peer.cpu_s, part) for part in parts))
                print(f"  {one}: {pair}", file=sys.stderr)
                if number > 0:
                    taken[one].append(pair)
    return taken


def run_cases(spark: Any, peer: peers.Peer, options: Any, *, jar: bool) -> None:
    """All tables, each as soon as it is there."""
    end = time.monotonic() + 60 * options.minutes
    cases = [
        (what, case_of(options.rows, size, count, codec))
        for what, size, count, codec in itertools.product(
            options.what or BENCHES,
            map(int, options.sizes.split(",")),
            map(int, options.partitions.split(",")),
            options.codecs.split(","),
        )
    ]
    warm: set[str] = set()
    for index, (what, case) in enumerate(cases):
        left_s = end - time.monotonic()
        if left_s < 0:
            print(f"\n{what}: {case.title}: left out, {options.minutes} minutes are over")
            continue
        first = 1 if what in warm else 1 - WARM_UP_ROUNDS
        warm.add(what)
        until = time.monotonic() + left_s / (len(cases) - index)
        rounds = range(first, options.rounds + 1)
        taken = run_case(spark, peer, what, case, rounds, until, jar)
        count = len(next(iter(taken.values())))
        print(f"\n{what}: {case.title}, local[2], {count} rounds, load {os.getloadavg()[0]:.1f}")
        print(table(case, taken), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=[[], *BENCHES], help="default: both")
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="of 100 bytes; a third of them of 1000"
    )
    parser.add_argument("--rounds", type=int, default=3, help="that count, at most")
    parser.add_argument("--sizes", default="100,1000")
    parser.add_argument("--partitions", default="1,12")
    parser.add_argument("--codecs", default="none,lz4,zstd")
    parser.add_argument("--minutes", type=float, default=22, help="after which no round begins")
    options = parser.parse_args()
    jars = connector_jars()
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(peers.fencepost())
        spark = session(jars)
        stack.callback(spark.stop)
        run_cases(spark, peer, options, jar=bool(jars))


if __name__ == "__main__":
    main()
