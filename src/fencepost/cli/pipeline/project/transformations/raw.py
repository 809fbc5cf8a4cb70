"""The topic as a streaming table: every record once, with where it came from."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession, functions as F

conf = SparkSession.active().conf
SERVERS = str(conf.get("spark.pipeline.bootstrap.servers"))
TOPIC = str(conf.get("spark.pipeline.topic"))


@dp.table(comment="Records as they stand in the topic")
def raw() -> DataFrame:
    records = (
        SparkSession.active()
        .readStream.format("fencepost")
        .option("kafka.bootstrap.servers", SERVERS)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .load()
    )
    return records.select(
        F.col("key").cast("string").alias("key"),
        F.col("value").cast("string").alias("event"),
        "topic",
        "partition",
        "offset",
        "timestamp",
    )
