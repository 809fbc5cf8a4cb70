"""A query that copies a topic exactly once, run as often as it is told to.

    python copying.py SERVERS FROM TO CHECKPOINT

It prints the pid of its JVM. For every line that comes in it runs the query until that has copied
what is there, and prints `done`, or `failed` and why.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark.sql import SparkSession

from fencepost.spark.java import ensure_java_home


def opened() -> Any:
    """A session that tries tasks again, as a cluster's would."""
    ensure_java_home()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def copy(spark: Any, servers: str, source: str, target: str, checkpoint: str) -> None:
    rows = (
        spark.readStream.format("fencepost")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "40")
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


def main(*arguments: str) -> None:
    spark = opened()
    print(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid(), flush=True)
    for _ in sys.stdin:
        try:
            copy(spark, *arguments)
        except Exception as error:  # noqa: BLE001  (whatever it is, the next run must put it right)
            print("failed", repr(str(error))[:2000], flush=True)
        else:
            print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
