"""How long a plan takes, by the number of partitions: of a batch read, and of a stream's batches.

    python -m benchmarks.spark.planner --partitions 10 10000

One broker of ours in a process of its own. Ten records are in each of ten partitions; with `--full`
every partition has a record, and then the batch read's plan alone is timed, since each partition is
a task. A stream runs with `availableNow` over what there is, and again with a little more; Spark's
progress says how long the source was asked for (`latestOffset`), and how long the rest of its
planning took, in which the tasks' ranges are made.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.spark.session import connector_jars, session, topic
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer
from fencepost.testing import Cluster as Broker

FILLED = 10


def fill(servers: str, name: str, partitions: int) -> None:
    with Cluster(servers) as cluster, Producer(cluster) as producer:
        for partition in range(partitions):
            for _ in range(10):
                producer.send(name, b"x" * 100, partition=partition)


def plan_batch(spark: Any, kind: str, servers: str, name: str) -> tuple[float, int]:
    """Seconds until Spark has the tasks of a read, and how many they are."""
    source = spark.read.format(kind).option("kafka.bootstrap.servers", servers)
    frame = source.option("subscribe", name).load()
    begun = time.perf_counter()
    tasks = frame._jdf.queryExecution().toRdd().getNumPartitions()
    return time.perf_counter() - begun, tasks


def run_stream(spark: Any, kind: str, servers: str, name: str, checkpoint: Path) -> Any:
    """The progress of the one batch with records, None of a run that finds nothing."""
    source = spark.readStream.format(kind).option("kafka.bootstrap.servers", servers)
    query = (
        source.option("subscribe", name)
        .option("startingOffsets", "earliest")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return next((one for one in query.recentProgress if one.numInputRows), None)


def told(name: str, seconds: list[float]) -> str:
    return f"{name} {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"


def measure(spark: Any, kind: str, servers: str, partitions: int, rounds: int) -> None:
    with topic(servers, partitions) as name:
        fill(servers, name, min(FILLED, partitions))
        batch = [plan_batch(spark, kind, servers, name) for _ in range(rounds + 1)][1:]
        asked, planned, whole = [], [], []
        with tempfile.TemporaryDirectory() as place:
            for _ in range(rounds):
                progress = run_stream(spark, kind, servers, name, Path(place, "checkpoint"))
                spent = progress.durationMs
                asked.append(spent.get("latestOffset", 0) / 1000)
                planned.append((spent.get("queryPlanning", 0) + spent.get("getBatch", 0)) / 1000)
                whole.append(spent["triggerExecution"] / 1000)
                fill(servers, name, min(FILLED, partitions))
        print(
            f"{kind:10} {partitions:6} partitions:",
            told("batch", [seconds for seconds, _ in batch]),
            f"for {batch[-1][1]} tasks;",
            told("stream: latestOffset", asked),
            told("planning", planned),
            told("whole batch", whole),
            flush=True,
        )


def measure_full(spark: Any, kind: str, servers: str, partitions: int, rounds: int) -> None:
    with topic(servers, partitions) as name:
        with Cluster(servers) as cluster, Producer(cluster) as producer:
            for partition in range(partitions):
                producer.send(name, b"x", partition=partition)
        plans = [plan_batch(spark, kind, servers, name) for _ in range(rounds + 1)][1:]
        seconds = [taken for taken, _ in plans]
        print(f"{kind:10} {partitions:6} partitions:", told("full batch", seconds),
              f"for {plans[-1][1]} tasks", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[10, 10_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--full", action="store_true", help="every partition has a record")
    arguments = parser.parse_args()
    jars = connector_jars()
    spark = session(jars)
    kinds = ["fencepost", *(["kafka"] if jars else [])]
    step = measure_full if arguments.full else measure
    try:
        with Broker(faults=False) as broker:
            for partitions in arguments.partitions:
                for kind in kinds:
                    servers = broker.bootstrap_servers
                    step(spark, kind, servers, partitions, arguments.rounds)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
