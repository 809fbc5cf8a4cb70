"""Rows per second into Spark's noop sink: our source, Spark's own, and a ceiling.

    python benchmarks/spark/bench.py [--rows N] [--rounds R]

All three in one session and interleaved. `ceiling` is a Python data source that yields the same
Arrow batches from memory and knows no Kafka: what any Python source can reach at best. `kafka` is
Spark's JVM connector, left out with a word where Maven Central is out of reach.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks import peers
from benchmarks.clients.bench import produce
from fencepost.spark.java import ensure_java_home

PARTITIONS = 4
SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "timestampType int"
)


class Ceiling(DataSource):
    """The same rows from memory, as Arrow batches."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema):
        return CeilingReader(schema, int(self.options["rows"]), int(self.options["size"]))


class CeilingReader(DataSourceReader):
    """Yields one prepared batch again and again."""

    def __init__(self, schema, rows: int, size_bytes: int):
        self.schema, self.rows, self.size_bytes = schema, rows, size_bytes

    def partitions(self):
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition):
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        batch_rows, left = 16_384, self.rows // PARTITIONS
        columns = [
            pa.array([None] * batch_rows, pa.binary()),
            pa.array([bytes(self.size_bytes)] * batch_rows, pa.binary()),
            pa.array(["topic"] * batch_rows),
            pa.array([partition.value] * batch_rows, pa.int32()),
            pa.array(range(batch_rows), pa.int64()),
            pa.array([1_700_000_000_000_000] * batch_rows, pa.timestamp("us", "UTC")),
            pa.array([0] * batch_rows, pa.int32()),
        ]
        schema = to_arrow_schema(self.schema, timezone="UTC")
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        while left > 0:
            yield batch.slice(0, min(left, batch_rows))
            left -= batch_rows


def session(jars: list[str]) -> SparkSession:
    ensure_java_home()
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers run the first python3 on the PATH
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.jars", ",".join(jars))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(Ceiling)
    return spark


def connector_jars() -> list[str]:
    """Jars of Spark's Kafka connector, or none with a word on standard error."""
    from tests.interop.conftest import SPARK_KAFKA
    from tests.interop.maven import JarsUnavailableError

    try:
        return [str(jar) for jar in SPARK_KAFKA.jars()]
    except JarsUnavailableError as error:
        print(f"without Spark's own connector: {error}", file=sys.stderr)
        return []


def fill(peer: peers.Peer, rows: int, size_bytes: int) -> str:
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(20)
    for partition in range(PARTITIONS):
        produce(peer, topic, rows // PARTITIONS, size_bytes, partition)
    return topic


def read(spark: SparkSession, name: str, options: dict[str, str]) -> float:
    started = time.perf_counter()
    spark.read.format(name).options(**options).load().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows of 100 bytes a round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    jars = connector_jars()
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(peers.fencepost())
        spark = session(jars)
        stack.callback(spark.stop)
        for size_bytes in (100, 1000):
            rows = options.rows if size_bytes == 100 else options.rows // 8
            topic = fill(peer, rows, size_bytes)
            kafka = {"kafka.bootstrap.servers": peer.bootstrap, "subscribe": topic}
            runs = {"ceiling": {"rows": str(rows), "size": str(size_bytes)}, "fencepost": kafka}
            if jars:
                runs["kafka"] = kafka
            times: dict[str, list[float]] = {name: [] for name in runs}
            for number in range(options.rounds + 1):
                print(f"{size_bytes} B, round {number} of {options.rounds}", file=sys.stderr)
                for name, wanted in runs.items():
                    took = read(spark, name, wanted)
                    if number:
                        times[name].append(took)
            medians = {name: statistics.median(values) for name, values in times.items()}
            print(f"\n{size_bytes} B values, {rows:,} rows, {PARTITIONS} partitions, local[2]")
            lines = [
                [name, f"{rows / took / 1e6:.2f}", f"{medians['ceiling'] / took:.2f}"]
                for name, took in medians.items()
            ]
            print(peers.table(["source", "M rows/s", "of the ceiling"], lines), flush=True)


if __name__ == "__main__":
    main()
