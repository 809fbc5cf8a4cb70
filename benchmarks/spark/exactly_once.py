"""What exactly once costs: the same writes with both delivery guarantees, in turns.

    python benchmarks/spark/exactly_once.py [--rows N] [--rounds R] [--batches B]

Batch writes of generated rows (100-byte values, 4 tasks, 4 partitions), and a query that copies ten
records per micro-batch from topic to topic. All in one session on one broker.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import peers
from benchmarks.spark.session import fill, session
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster

GUARANTEES = ("at-least-once", "exactly-once")
TASKS = 4


def sink(writer: Any, servers: str, topic: str, guarantee: str, prefix: str) -> Any:
    writer = writer.format("fencepost").option("kafka.bootstrap.servers", servers)
    if guarantee == "exactly-once":
        writer = writer.option("transactionalIdPrefix", prefix)
    return writer.option("topic", topic).option("deliveryGuarantee", guarantee)


def write(spark: Any, servers: str, topic: str, guarantee: str, rows: int) -> float:
    """Seconds for a batch write."""
    frame = spark.range(0, rows, 1, TASKS).selectExpr(
        "cast(id as string) key", "rpad(cast(id as string), 100, 'x') value"
    )
    started = time.perf_counter()
    sink(frame.write, servers, topic, guarantee, "bench").mode("append").save()
    return time.perf_counter() - started


def copy(spark: Any, servers: str, source: str, topic: str, guarantee: str) -> list[float]:
    """Milliseconds of each micro-batch of a query, as Spark measures them."""
    with tempfile.TemporaryDirectory() as place:
        rows = (
            spark.readStream.format("fencepost")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "10")
            .load()
            .select("key", "value")
        )
        prefix = f"bench-{uuid.uuid4().hex[:8]}"
        query = (
            sink(rows.writeStream, servers, topic, guarantee, prefix)
            .option("checkpointLocation", place)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [
            float(one["durationMs"]["triggerExecution"])
            for one in query.recentProgress
            if one["numInputRows"]
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a batch write")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=20, help="micro-batches of a query")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(peers.fencepost())
        servers = peer.bootstrap
        spark = session([])
        stack.callback(spark.stop)
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        topic = f"bench-{uuid.uuid4().hex[:8]}"
        with Cluster(servers) as cluster:
            Admin(cluster).create_topic(topic, 4)
            Admin(cluster).wait_for_topic(topic)
        source = f"bench-{uuid.uuid4().hex[:8]}"
        with Cluster(servers) as cluster:
            Admin(cluster).create_topic(source, 4)
            Admin(cluster).wait_for_topic(source)
        fill(servers, source, 4, options.batches * 10, 100)
        writes: dict[str, list[float]] = {name: [] for name in GUARANTEES}
        copies: dict[str, list[float]] = {name: [] for name in GUARANTEES}
        for number in range(options.rounds + 1):
            print(f"round {number} of {options.rounds}", file=sys.stderr)
            for name in GUARANTEES:
                took = write(spark, servers, topic, name, options.rows)
                batches = copy(spark, servers, source, topic, name)
                if number:
                    writes[name].append(took)
                    copies[name] += batches[1:]  # the first of a query has more to set up
        first = statistics.median(writes[GUARANTEES[0]])
        lines = []
        for name in GUARANTEES:
            took = statistics.median(writes[name])
            lines.append(
                [
                    name,
                    f"{options.rows / took / 1e6:.2f}",
                    f"{first / took:.2f}",
                    f"{statistics.median(copies[name]):.0f}",
                ]
            )
        titles = ["guarantee", "M rows/s", "of at-least-once", "ms per batch of 10"]
        print(peers.table(titles, lines), flush=True)


if __name__ == "__main__":
    main()
