"""Sums per name and minute, back to a topic: each window once, when its minute is over.

Once also where a run was killed, for consumers that read with isolation.level=read_committed.

A minute is over when an event has come that is later by more than LATE. So the last minutes of a
run are published by the next one that finds newer events. It reads the topic itself, because Spark
4.3 analyses a flow with a watermark before it knows the pipeline's tables.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession, functions as F

conf = SparkSession.active().conf
SERVERS = str(conf.get("spark.pipeline.bootstrap.servers"))
TOPIC = str(conf.get("spark.pipeline.topic"))
OUTPUT_TOPIC = str(conf.get("spark.pipeline.output.topic"))
EVENT = str(conf.get("spark.pipeline.event"))
LATE = "1 minute"

dp.create_sink(
    "sums",
    "fencepost",
    {
        "kafka.bootstrap.servers": SERVERS,
        "topic": OUTPUT_TOPIC,
        "deliveryGuarantee": "exactly-once",
    },
)


@dp.append_flow(target="sums")
def sums_per_minute() -> DataFrame:
    records = (
        SparkSession.active()
        .readStream.format("fencepost")
        .option("kafka.bootstrap.servers", SERVERS)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .load()
    )
    event = F.from_json(F.col("value").cast("string"), EVENT)
    sums = (
        records.select("timestamp", event.alias("json"))
        .where("json.name IS NOT NULL AND json.amount IS NOT NULL")
        .withWatermark("timestamp", LATE)
        .groupBy(F.window("timestamp", "1 minute"), F.col("json.name").alias("name"))
        .agg(F.count("*").alias("events"), F.sum("json.amount").alias("amount"))
    )
    value = F.struct("name", F.col("window.start").alias("minute"), "events", "amount")
    return sums.select(F.col("name").alias("key"), F.to_json(value).alias("value"))
