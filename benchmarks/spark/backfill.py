"""A topic read by Spark from its brokers, from an archive, and half from each.

    python benchmarks/spark/backfill.py [--mb 400] [--partitions 4] [--runs 3]

One broker of ours, records of 1 kB, Spark on `local[2]`, rows written nowhere (noop). Beside them
Spark's own reader of the same files, which knows nothing of offsets. Medians, with the load of the
machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.spark.archive import produce
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster as Client
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.spark.archive import archive_topics
from fencepost.spark.java import ensure_java_home
from fencepost.testing import Cluster


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=400)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with Cluster(faults=False) as cluster, tempfile.TemporaryDirectory() as place:
        servers = cluster.bootstrap_servers
        rows = produce(servers, arguments.partitions, arguments.mb * 1_000_000, 1 << 20)
        spark = session()
        source = {"kafka.bootstrap.servers": servers, "subscribe": "big"}
        archive_topics(spark, source, f"{place}/archive").awaitTermination()
        given = {**source, "archive": f"{place}/archive"}

        def read(**options: str) -> Any:
            return spark.read.format("fencepost").options(**options).load()

        def measure(name: str, frame: Callable[[], Any]) -> None:
            took = []
            for _ in range(arguments.runs):
                started = time.monotonic()
                frame().write.format("noop").mode("overwrite").save()
                took.append(time.monotonic() - started)
            median = statistics.median(took)
            mb_s = rows * 1_000 / 1e6 / median
            load = os.getloadavg()[0]
            print(f"{name:32} {median:6.2f} s {mb_s:7.0f} MB/s  load {load:.1f}", flush=True)

        measure("brokers", lambda: read(**source))
        measure("brokers, archive beside them", lambda: read(**given))
        delete(servers, arguments.partitions, 0.5)
        measure("half archive, half brokers", lambda: read(**given))
        delete(servers, arguments.partitions, 1.0)
        measure("archive", lambda: read(**given))
        measure("Spark's reader of the files", lambda: spark.read.parquet(f"{place}/archive"))
        only = spark.read.schema("offset bigint").format("fencepost").options(**given)
        measure("archive, offsets alone", only.load)
        spark.stop()


def session() -> Any:
    """Two tasks at a time, with this interpreter."""
    ensure_java_home()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    return made


def delete(servers: str, partitions: int, share: float) -> None:
    """What retention would."""
    where = [TopicPartition("big", number) for number in range(partitions)]
    with Client(servers) as client:
        ends = list_offsets(client, dict.fromkeys(where, LATEST))
        before = {one: int(ends[one].offset * share) for one in where}
        Admin(client).delete_records(before)


if __name__ == "__main__":
    main()
