"""What tasks of ours take by themselves, without Spark: CPU of the process that runs them, a row.

    python benchmarks/spark/worker.py [--rows N] [--rounds R]

`read` goes from the fetch to Arrow's stream on a socket, as a Python worker of Spark's does it;
`write` takes Arrow batches as Spark hands them over. `range` is a task that reads ten records in
the middle of a log, as a limited micro-batch does. Medians of rounds that take turns; the broker is
a process of its own, and so is who reads the socket.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import multiprocessing
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.spark.session import TEXT_BYTES, fill, text, topic
from fencepost.arrow.planning import OffsetRange
from fencepost.client.metadata import TopicPartition
from fencepost.spark.columns import default_schema
from fencepost.spark.options import sink_options, source_options
from fencepost.spark.projection import Projection
from fencepost.spark.tasks import read_range
from fencepost.spark.writer import write_rows

HANDED_OVER_ROWS = 10_000
RANGE_ROWS, RANGES = 10, 40
SHARES = {100: 1, 1000: 5}
"""By sizes of values: of how many rows one is taken."""
PARTITIONS, CODECS = (1, 12), ("none", "lz4", "zstd")


def drain(reading: socket.socket, writing: socket.socket) -> None:
    """What the JVM is to a worker: takes whatever comes."""
    writing.close()
    buffer = bytearray(1 << 18)
    while reading.recv_into(buffer):
        pass


def read(servers: str, name: str, partitions: int, rows: int, to: socket.socket) -> int:
    """Every partition's range, one task after the other."""
    options = source_options(
        {"kafka.bootstrap.servers": servers, "subscribe": name}, streaming=False
    )
    projection = Projection(default_schema(include_headers=False))
    count = 0
    for number in range(partitions):
        wanted = OffsetRange(TopicPartition(name, number), 0, rows // partitions, -1, "")
        with to.makefile("wb") as file, pa.ipc.new_stream(file, projection.arrow_schema) as stream:
            for batch in read_range(options, projection, wanted):
                stream.write_batch(batch)
                count += batch.num_rows
    return count


def read_ten(servers: str, name: str, rows: int) -> int:
    """Short ranges in the middle of a log."""
    options = source_options(
        {"kafka.bootstrap.servers": servers, "subscribe": name}, streaming=False
    )
    projection = Projection(default_schema(include_headers=False))
    where = TopicPartition(name, 0)
    for begin in range(rows // 3, rows // 3 + RANGES * RANGE_ROWS, RANGE_ROWS):
        wanted = OffsetRange(where, begin, begin + RANGE_ROWS, -1, "")
        assert sum(one.num_rows for one in read_range(options, projection, wanted)) == RANGE_ROWS
    return RANGES


def handed_over(rows: int, size_bytes: int) -> Iterator[pa.RecordBatch]:
    """Batches like those that Spark gives a task, all of them in memory of their own."""
    made = text(TEXT_BYTES).decode()
    for first in range(0, rows, HANDED_OVER_ROWS):
        numbers = range(first, first + HANDED_OVER_ROWS)
        starts = (number * 37 % (TEXT_BYTES - size_bytes) for number in numbers)
        values = [made[start : start + size_bytes] for start in starts]
        yield pa.RecordBatch.from_pydict({"key": list(map(str, numbers)), "value": values})


def write(servers: str, name: str, codec: str, batches: list[pa.RecordBatch]) -> int:
    options = {"topic": name, "kafka.bootstrap.servers": servers, "kafka.compression.type": codec}
    return sum(write_rows(sink_options(options), iter(batches)).records.values())


def cost(peer: peers.Peer, run: Callable[[], int]) -> tuple[float, float]:
    """Microseconds of CPU for each of what `run` counts: of this process, and of the broker."""
    broker_s, began_s = peer.cpu_s(), time.process_time()
    count = run()
    return (
        (time.process_time() - began_s) / count * 1e6,
        (peer.cpu_s() - broker_s) / count * 1e6,
    )


def run_size(peer: peers.Peer, size: int, options: argparse.Namespace, to: socket.socket) -> None:
    """The table of one size of values."""
    rows = options.rows // SHARES[size]
    batches = list(handed_over(rows, size))
    with contextlib.ExitStack() as stack:
        runs: dict[str, Callable[[], int]] = {}
        for partitions, codec in itertools.product(PARTITIONS, CODECS):
            name = stack.enter_context(topic(peer.bootstrap, partitions))
            fill(peer.bootstrap, name, partitions, rows, size, codec)
            into = stack.enter_context(topic(peer.bootstrap, partitions))
            what = f"{partitions} partitions, {codec}"
            runs[f"read, {what}"] = lambda n=name, p=partitions: read(
                peer.bootstrap, n, p, rows, to
            )
            runs[f"write, {what}"] = lambda n=into, c=codec: write(peer.bootstrap, n, c, batches)
            if partitions == 1:
                runs[f"range, {what}"] = lambda n=name: read_ten(peer.bootstrap, n, rows)
        taken: dict[str, list[tuple[float, float]]] = {one: [] for one in runs}
        for number in range(options.rounds + 1):  # the first warms up
            print(f"{size} B, round {number} of {options.rounds}", file=sys.stderr)
            for one, run in runs.items():
                costs = cost(peer, run)
                if number:
                    taken[one].append(costs)
    print(f"\n{rows:,} rows, values of {size} B, load {os.getloadavg()[0]:.1f}")
    lines = [
        [one, *(f"{statistics.median(column):.2f}" for column in zip(*costs, strict=True))]
        for one, costs in sorted(taken.items())
    ]
    print(
        peers.table(["", "µs CPU a row (of `range`: a task)", "of the broker"], lines), flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows", type=int, default=500_000, help="of 100 bytes; a fifth of them of 1000"
    )
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    context = multiprocessing.get_context("fork")
    mine, other = socket.socketpair()
    taker = context.Process(target=drain, args=(other, mine))
    taker.start()
    other.close()
    try:
        with peers.fencepost() as peer:
            for size in SHARES:
                run_size(peer, size, options, mine)
    finally:
        mine.close()
        taker.join()


if __name__ == "__main__":
    main()
