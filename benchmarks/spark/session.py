"""The Spark session, the jars, and the topics of the benchmarks here."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit, substring

from benchmarks.spark.ceiling import Ceiling
from fencepost.batch.columns import encode_columns
from fencepost.client.admin import Admin
from fencepost.client.batch_producer import BatchProducer
from fencepost.client.cluster import Cluster
from fencepost.spark.java import ensure_java_home

ROOT = Path(__file__).resolve().parents[2]
TEXT_BYTES = 16_384
BATCH_BYTES = 64 * 1024
CREATED_AT_ONCE = 5_000
"""Partitions; a controller refuses requests that come to more than 10,000 records."""
"""Of what is read: between Kafka's default of 16 KiB and what bulk writers make."""


def session(jars: list[str]) -> SparkSession:
    """Two cores, Unix domain sockets to the workers, the jars on the class path."""
    ensure_java_home()
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers run the first python3 on the PATH
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")
        # Workers that start on a busy machine take longer than the default of 15 s to call back.
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .config("spark.jars", ",".join(jars))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(Ceiling)
    return spark


def jvm_pid(spark: SparkSession) -> int:
    """The process that Spark's Python workers are children of."""
    jvm: Any = spark.sparkContext._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())


def connector_jars() -> list[str]:
    """Jars of Spark's Kafka connector, or none with a word on standard error."""
    from tests.interop.conftest import SPARK_KAFKA
    from tests.interop.maven import JarsUnavailableError

    try:
        return [str(jar) for jar in SPARK_KAFKA.jars()]
    except JarsUnavailableError as error:
        print(f"without Spark's own connector: {error}", file=sys.stderr)
        return []


def text(count: int) -> bytes:
    """Digits and punctuation at random, as JSON is made of; shrinks by about half."""
    letters = np.frombuffer(b'0123456789abcdef{}":, ', np.uint8)
    return bytes(np.random.default_rng(1).choice(letters, count))


def frame(spark: SparkSession, rows: int, size_bytes: int, tasks: int) -> DataFrame:
    """Rows to write: keys that are all different, values of that size that are cheap to make."""
    source = lit(bytearray(text(TEXT_BYTES)))
    start = (col("id") * 37 % (TEXT_BYTES - size_bytes) + 1).cast("int")
    return spark.range(0, rows, 1, tasks).select(
        col("id").cast("string").alias("key"),
        substring(source, start, lit(size_bytes)).alias("value"),
    )


@contextlib.contextmanager
def topic(servers: str, partitions: int) -> Iterator[str]:
    """A topic that is deleted afterwards."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    with Cluster(servers) as cluster:
        admin = Admin(cluster)
        admin.create_topic(name, min(partitions, CREATED_AT_ONCE))
        for count in range(CREATED_AT_ONCE, partitions, CREATED_AT_ONCE):
            admin.create_partitions(name, min(partitions, count + CREATED_AT_ONCE))
        admin.wait_for_topic(name)
        try:
            yield name
        finally:
            admin.delete_topic(name)


def fill(
    servers: str, name: str, partitions: int, rows: int, size_bytes: int, codec: str = "none"
) -> None:
    """The same number of rows in every partition."""
    made, step = text(TEXT_BYTES), min(rows // partitions, 8192)
    values = [made[at : at + size_bytes] for at in range(0, TEXT_BYTES - size_bytes, 37)]
    values = (values * (step // len(values) + 1))[:step]
    columns = {"key": [b"%d" % number for number in range(step)], "value": values}
    block = pa.RecordBatch.from_pydict(columns)
    with Cluster(servers) as cluster, BatchProducer(cluster) as producer:
        for partition in range(partitions):
            for begin in range(0, rows // partitions, step):
                part: Any = block.slice(0, min(step, rows // partitions - begin))
                for batch in encode_columns(
                    part,
                    partition,
                    timestamp_ms=time.time_ns() // 1_000_000,
                    max_batch_bytes=BATCH_BYTES,
                    compression=codec,
                ):
                    producer.send_batch(name, partition, batch.data)
