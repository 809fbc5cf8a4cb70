"""Jobs that write exactly once, run as often as they are told to.

    python copying.py SETTINGS JOB SERVERS FROM TO CHECKPOINT

SETTINGS are Spark's, a JSON object. JOB is `query`, which copies one topic to the other;
`each-batch`, whose foreachBatch writes to the other topic, to one of dead letters and to a table;
`write`, which writes the numbers of a range in a batch with a key; `tables`, which keeps the latest
value of each key in a table; or `archive`, which archives the topic. It prints the pid of its JVM.
For every line that comes in, which has the first and the last number, it runs the job until all is
copied, and prints `done`, or `failed` and why.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyspark.sql import SparkSession

from fencepost.spark import in_batch
from fencepost.spark.archive import archive_topics
from fencepost.spark.java import ensure_java_home
from fencepost.spark.tables import latest
from tests.spark.late_workers import run_despite_late_workers

BATCH_RECORDS = "40"


def opened(settings: dict[str, str]) -> Any:
    ensure_java_home()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def records(spark: Any, servers: str, source: str) -> Any:
    return (
        spark.readStream.format("fencepost")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", BATCH_RECORDS)
        .load()
    )


def copy(spark: Any, servers: str, source: str, target: str, checkpoint: str) -> None:
    query = (
        records(spark, servers, source)
        .select("key", "value")
        .writeStream.format("fencepost")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", target)
        .option("deliveryGuarantee", "exactly-once")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def copy_each_batch(spark: Any, servers: str, source: str, target: str, checkpoint: str) -> None:
    """Every fifth number is a dead letter."""

    def publish(frame: Any, batch_id: int) -> None:
        sink = {"kafka.bootstrap.servers": servers, **in_batch(frame, batch_id)}
        for where, topic in (("> 0", target), ("= 0", f"{target}-dead")):
            rows = frame.where(f"int(string(value)) % 5 {where}").select("key", "value")
            rows.write.format("fencepost").options(**sink, topic=topic).mode("append").save()
        table = frame.selectExpr("int(string(value)) number")
        table.write.mode("overwrite").parquet(f"{checkpoint}-table/batch={batch_id}")

    query = (
        records(spark, servers, source)
        .writeStream.foreachBatch(publish)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def write(spark: Any, servers: str, target: str, first: int, end: int) -> None:
    (
        spark.range(first, end, numPartitions=2)
        .selectExpr("string(id) key", "string(id) value")
        .write.format("fencepost")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", target)
        .option("deliveryGuarantee", "exactly-once")
        .option("txnAppId", "numbers")
        .option("txnVersion", str(first))
        .mode("append")
        .save()
    )


def keep_latest(spark: Any, servers: str, source: str, place: str) -> None:
    options = {"kafka.bootstrap.servers": servers, "subscribe": source}
    options["maxOffsetsPerTrigger"] = BATCH_RECORDS
    latest(spark, options, place, buckets=4).awaitTermination()


def archive(spark: Any, servers: str, source: str, place: str) -> None:
    options = {"kafka.bootstrap.servers": servers, "subscribe": source}
    options["maxOffsetsPerTrigger"] = BATCH_RECORDS
    archive_topics(spark, options, place).awaitTermination()


def main(settings: str, job: str, *arguments: str) -> None:
    spark = opened(json.loads(settings))
    print(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid(), flush=True)
    servers, source, target, checkpoint = arguments
    for line in sys.stdin:
        first, end = map(int, line.split())

        def run(first: int = first, end: int = end) -> None:
            if job == "write":
                write(spark, servers, target, first, end)
            elif job == "each-batch":
                copy_each_batch(spark, servers, source, target, checkpoint)
            elif job == "tables":
                keep_latest(spark, servers, source, f"{checkpoint}-latest")
            elif job == "archive":
                archive(spark, servers, source, f"{checkpoint}-archive")
            else:
                copy(spark, servers, source, target, checkpoint)

        try:
            run_despite_late_workers(run)
        except Exception as error:  # noqa: BLE001  (whatever it is, the next run must put it right)
            print("failed", repr(str(error))[:2000], flush=True)
        else:
            print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
