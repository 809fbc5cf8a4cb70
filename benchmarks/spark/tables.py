"""Latest-state merges per second, by size of the table and share of changed keys.

    python benchmarks/spark/tables.py task  [--rows 100000 1000000] [--events 100000]
    python benchmarks/spark/tables.py spark [--rows 1000000] [--shares 0.001 0.01 0.1] [--rounds 3]
                                            [--formats parquet] [--jars JAR ...]

`task` is what one task does, in this process and without Spark: decoding of records, and merging
them into a bucket, in µs of CPU per event. `spark` is a batch as a query runs it, of records that
are in a DataFrame, into a table of so many rows: wall time, and events per second. With Delta's
jars, `--formats parquet delta`, and a Spark that they fit, the same batches beside each other, and
`merge`, a hand-written MERGE of the last event of each key that a window finds. The load is said.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import pyarrow as pa

from fencepost.arrow.storage import storage_at
from fencepost.spark.tables.batches import MergeOptions, Reach, apply_batch
from fencepost.spark.tables.decoding import RAW_COLUMNS, Decoding, decode_records
from fencepost.spark.tables.lakes import in_lake
from fencepost.spark.tables.merging import Rules, merge
from fencepost.spark.tables.query import for_spark, prepare
from fencepost.spark.tables.spark_tasks import in_spark
from fencepost.spark.tables.versions import Settings, Versions

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])
TEXT = "x" * 60
WARMING = 6
"""Batches before those that are measured, by which the JVM has compiled what they run."""


def records_of(ids: np.ndarray[Any, Any], decode: str, first_offset: int) -> pa.RecordBatch:
    """One record for each id."""
    offsets = np.arange(first_offset, first_offset + len(ids))
    if decode == "bytes":
        keys = [b"%d" % one for one in ids]
        values = [b'{"id":%d,"name":"%s","amount":1.5}' % (one, TEXT.encode()) for one in ids]
    else:
        keys = [b'{"id":%d}' % one for one in ids]
        values = [
            json.dumps(
                {
                    "before": None,
                    "after": {"id": int(one), "name": TEXT, "amount": 1.5},
                    "source": {"connector": "postgresql", "name": "s", "lsn": int(offset)},
                    "op": "u",
                    "ts_ms": 1,
                }
            ).encode()
            for one, offset in zip(ids, offsets, strict=True)
        ]
    return pa.record_batch(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "partition": pa.array(np.zeros(len(ids), np.int32)),
            "offset": pa.array(offsets),
            "timestamp_ms": pa.array(np.full(len(ids), 1_700_000_000_000)),
        }
    )


def decoding_of(decode: str, buckets: int) -> tuple[Decoding, str]:
    """How records are read, and the order."""
    if decode == "bytes":
        return Decoding("bytes", ("key",), RAW_COLUMNS, buckets), "topic"
    return Decoding(decode, ("id",), COLUMNS, buckets), "source"


def bench_task(sizes: list[int], events: int) -> None:
    print("| decode | rows of the bucket | decoding, µs/event | merging, µs/event | load |")
    print("|---|---|---|---|---|")
    random = np.random.default_rng(1)
    for decode in ("bytes", "debezium"):
        decoding, order = decoding_of(decode, 1)
        for size in sizes:
            rules = Rules(decoding.columns, order)
            records = records_of(np.arange(size), decode, 0)
            first = pa.Table.from_batches([decode_records(records, decoding)])
            old = merge(rules.stored.empty_table(), first, rules).rows
            records = records_of(random.integers(0, size, events), decode, size)
            started = time.process_time()
            found = pa.Table.from_batches([decode_records(records, decoding)])
            decoded = time.process_time()
            merge(old, found, rules)
            merged = time.process_time()
            print(
                f"| {decode} | {size:,} | {(decoded - started) / events * 1e6:.2f} | "
                f"{(merged - decoded) / events * 1e6:.2f} | {os.getloadavg()[0]:.1f} |",
                flush=True,
            )


class SparkBench:
    """Batches into one table by Spark."""

    def __init__(self, spark: Any, base: Path, format: str, decode: str, buckets: int) -> None:
        self.spark = spark
        self.base = base
        self.format = format
        self.place = base / f"{format}-{decode}"
        self.decoding, order = decoding_of(decode, buckets)
        self.versions = Versions(storage_at(self.place))
        settings = Settings(decode, self.decoding.key, order, buckets)
        prepare(self.versions, settings, self.decoding.columns)
        self.batch = 0
        self.offset = 0

    def take(self, ids: np.ndarray[Any, Any]) -> float:
        """One batch with one event for each id; seconds."""
        import pyarrow.parquet as pq

        records = records_of(ids, self.decoding.decode, self.offset)
        at = records.schema.get_field_index("timestamp_ms")
        stamps = records["timestamp_ms"].cast(pa.timestamp("ms", tz="UTC"))
        rows = pa.table(records).set_column(at, "timestamp", stamps)
        source = self.base / f"records-{self.format}-{self.batch}.parquet"
        pq.write_table(rows, source, row_group_size=max(1, len(ids) // 4))
        frame = self.spark.read.parquet(str(source))
        started = time.perf_counter()
        run = in_spark(frame)
        if self.format != "parquet":
            place = for_spark(self.versions.storage.uri)
            run = in_lake(frame, place, self.format, "bench", self.batch, lambda reports: None)
        reach = Reach("t", "id", {0: (self.offset, self.offset + len(ids))})
        options = MergeOptions(keep_ms=0, keep_versions=2)
        apply_batch(self.versions, self.decoding, "bench", self.batch, reach, options, run)
        took = time.perf_counter() - started
        self.batch += 1
        self.offset += len(ids)
        return took


class HandMerge:
    """What people write themselves: the last event of each key by a window, then Delta's MERGE."""

    format = "merge"

    def __init__(self, spark: Any, base: Path) -> None:
        self.spark = spark
        self.base = base
        self.path = f"file:{base}/hand"
        spark.createDataFrame([], "id long, name string, amount double, lsn long").write.format(
            "delta"
        ).save(self.path)
        self.batch = 0
        self.offset = 0

    def take(self, ids: np.ndarray[Any, Any]) -> float:
        import pyarrow.parquet as pq

        source = self.base / f"records-hand-{self.batch}.parquet"
        pq.write_table(pa.table(records_of(ids, "debezium", self.offset)), source)
        started = time.perf_counter()
        schema = (
            "op string, source struct<lsn: long>, "
            "after struct<id: long, name: string, amount: double>"
        )
        self.spark.read.parquet(str(source)).selectExpr(
            f"from_json(cast(value as string), '{schema}') e", "offset"
        ).selectExpr(
            "e.after.*",
            "e.source.lsn lsn",
            "row_number() over (partition by e.after.id order by offset desc) place",
        ).where("place = 1").drop("place").createOrReplaceTempView("changes")
        self.spark.sql(
            f"MERGE INTO delta.`{self.path}` t USING changes s ON t.id = s.id "
            "WHEN MATCHED AND s.lsn > t.lsn THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        self.batch += 1
        self.offset += len(ids)
        return time.perf_counter() - started


def bench_spark(arguments: argparse.Namespace) -> None:
    from benchmarks.spark.session import session

    spark = session(arguments.jars)
    if "delta" in arguments.formats or "merge" in arguments.formats:
        spark.stop()
        spark = _delta_session(arguments.jars)
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    random = np.random.default_rng(1)
    print("| format | decode | rows | load, rows/s | events | s a batch | events/s | load |")
    print("|---|---|---|---|---|---|---|---|")
    base = Path(tempfile.mkdtemp(prefix="tables-bench-", dir=arguments.dir))
    try:
        for size in arguments.rows:
            for format in arguments.formats:
                for decode in arguments.decodes if format != "merge" else ["debezium"]:
                    place = base / f"{size}-{format}-{decode}"
                    place.mkdir()
                    bench: Any
                    if format == "merge":
                        bench = HandMerge(spark, place)
                    else:
                        bench = SparkBench(spark, place, format, decode, arguments.buckets)
                    bench.take(np.arange(100))  # starts the workers
                    loaded = size / bench.take(np.arange(size))
                    for _ in range(WARMING):
                        bench.take(random.choice(size, 100, replace=False))
                    for share in arguments.shares:
                        events = max(1, int(size * share))
                        took = [
                            bench.take(random.choice(size, events, replace=False))
                            for _ in range(arguments.rounds)
                        ]
                        middle = statistics.median(took)
                        print(
                            f"| {format} | {decode} | {size:,} | {loaded:,.0f} | {events:,} | "
                            f"{middle:.2f} | {events / middle:,.0f} | {os.getloadavg()[0]:.1f} |",
                            flush=True,
                        )
                    shutil.rmtree(place)
    finally:
        shutil.rmtree(base, ignore_errors=True)
        spark.stop()


def _delta_session(jars: list[str]) -> Any:
    import sys

    from pyspark.sql import SparkSession

    from fencepost.spark.java import ensure_java_home

    ensure_java_home()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.jars", ",".join(jars))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", catalog)
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("task", "spark"))
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.001, 0.01, 0.1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--buckets", type=int, default=16)
    parser.add_argument("--decodes", nargs="+", default=["bytes", "debezium"])
    parser.add_argument("--formats", nargs="+", default=["parquet"])
    parser.add_argument("--jars", nargs="*", default=[])
    parser.add_argument("--dir", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "task":
        bench_task(arguments.rows, arguments.events)
    else:
        bench_spark(arguments)


if __name__ == "__main__":
    main()
