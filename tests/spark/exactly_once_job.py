"""A query that copies a topic exactly once, in a process of its own that tests kill.

    python exactly_once_job.py SERVERS FROM TO CHECKPOINT

It runs until it has copied what is there, prints the pid of its JVM first and `done` last.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from fencepost.spark.java import ensure_java_home


def main(servers: str, source: str, target: str, checkpoint: str) -> None:
    ensure_java_home()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    jvm = spark.sparkContext._jvm
    print(jvm.java.lang.ProcessHandle.current().pid(), flush=True)  # type: ignore[union-attr]
    rows = (
        spark.readStream.format("fencepost")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "200")
        .load()
    )
    query = (
        rows.select("key", "value")
        .writeStream.format("fencepost")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", target)
        .option("deliveryGuarantee", "exactly-once")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
