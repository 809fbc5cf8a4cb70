"""The raw events as a streaming table: every record of the topic once, with where it came from."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession, functions as F

BOOTSTRAP_SERVERS = os.environ.get("FLIGHTS_BOOTSTRAP_SERVERS", "127.0.0.1:9092")
TOPIC = os.environ.get("FLIGHTS_TOPIC", "flights")


@dp.table(comment="Flight records as they stand in the topic, with partition and offset")
def flights_raw() -> DataFrame:
    records = (
        SparkSession.active()
        .readStream.format("fencepost")
        .option("kafka.bootstrap.servers", BOOTSTRAP_SERVERS)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .load()
    )
    return records.select(
        F.col("key").cast("string").alias("tailnum"),
        F.col("value").cast("string").alias("event"),
        "partition",
        "offset",
        "timestamp",
    )
