"""What a GB costs when more executors read it: standalone clusters of one core each.

    python benchmarks/spark/executors.py [--gb 1] [--partitions 12] [--executors 1 2 4] [--rounds 3]

One broker of ours with one topic of 1 kB values. Per number of executors a cluster of so many
workers, a first read that warms them, then reads of the whole topic into Spark's noop sink. CPU is
that of the executors' JVMs and Python workers, beside it the driver's (JVM and planner) and the
broker's; all are medians. More executors than the machine has cores do not make it faster: what is
to be constant is CPU per GB.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import psutil
from pyspark.sql import SparkSession

from benchmarks.spark.session import ROOT, fill, jvm_pid, topic
from fencepost.spark.java import ensure_java_home
from fencepost.testing import Cluster
from fencepost.testing.spark_standalone import SparkStandalone

VALUE_BYTES = 1_000


def session(standalone: SparkStandalone) -> SparkSession:
    """An application on all of the workers."""
    builder = SparkSession.builder.master(standalone.master_url)
    for name, value in standalone.settings.items():
        builder = builder.config(name, value)
    spark = (
        builder.config("spark.ui.showConsoleProgress", "false")
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.scheduler.maxRegisteredResourcesWaitingTime", "120s")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def cpu_s(pids: list[int]) -> float:
    """User and system time of processes, as far as they are still there."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(psutil.Process(pid).cpu_times()[:2])
    return total


def driver_of(spark: SparkSession) -> list[int]:
    """The driver's JVM and what it has started."""
    jvm = psutil.Process(jvm_pid(spark))
    return [jvm.pid, *(one.pid for one in jvm.children(recursive=True))]


def spent_s(standalone: SparkStandalone, spark: SparkSession, cluster: Cluster) -> list[float]:
    """CPU of the executors, the driver and the broker."""
    groups = (standalone.executor_processes, driver_of(spark), [cluster.pid])
    return [cpu_s(pids) for pids in groups]


def read(spark: SparkSession, servers: str, name: str, **options: str) -> None:
    """All values, and nothing done with them."""
    reader: Any = spark.read.format("fencepost").schema("value binary")
    rows = reader.options(**options).options(
        **{"kafka.bootstrap.servers": servers, "subscribe": name}
    )
    rows.load().write.format("noop").mode("overwrite").save()


def measured(count: int, cluster: Cluster, name: str, gb: float, rounds: int) -> str:
    """One row of the table."""
    servers = cluster.bootstrap_servers
    with SparkStandalone(count, cores=1, memory_mb=1024) as standalone:
        spark = session(standalone)
        try:
            read(spark, servers, name)
            load, rows = os.getloadavg()[0], []
            for _ in range(rounds):
                before = spent_s(standalone, spark, cluster)
                started = time.perf_counter()
                read(spark, servers, name)
                wall_s = time.perf_counter() - started
                after = spent_s(standalone, spark, cluster)
                costs = (now - then for now, then in zip(after, before, strict=True))
                rows.append((wall_s, *costs))
        finally:
            spark.stop()
    wall_s, *spent = (statistics.median(column) for column in zip(*rows, strict=True))
    per_gb = " | ".join(f"{one / gb:.2f}" for one in spent)
    return f"| {count} | {gb * 1000 / wall_s:.0f} | {per_gb} | {load:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gb", type=float, default=1)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    ensure_java_home()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    count = int(arguments.gb * 1e9 / VALUE_BYTES)
    with (
        Cluster(faults=False) as cluster,
        topic(cluster.bootstrap_servers, arguments.partitions) as name,
    ):
        fill(cluster.bootstrap_servers, name, arguments.partitions, count, VALUE_BYTES)
        print("| executors | MB/s | CPU s/GB: executors | driver | broker | load |")
        print("|---|---|---|---|---|---|")
        for executors in arguments.executors:
            print(measured(executors, cluster, name, arguments.gb, arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
