"""Orders and payments as two streams: sums per minute and item, and which orders were paid.

    python revenue.py CHECKPOINTS [FORMAT]

reads what is new in the topics `orders` and `payments`, writes to `revenue` and `paid-orders`, and
ends. FORMAT is `fencepost`, or `kafka` for Spark's own connector: the same checkpoints serve both,
as docs/SPARK.md says under "Moving a query over and back".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.streaming import StreamingQuery

ORDER = "id long, item string, amount long, at timestamp"
PAYMENT = "order_id long, paid_at timestamp"
LATE_BY = "10 minutes"  # how far behind the newest event one may be and still count
PAID_WITHIN = "30 minutes"


def events(
    spark: SparkSession, source: Mapping[str, str], topic: str, schema: str, time: str
) -> DataFrame:
    """The events of a topic as a stream; what is not such JSON is left out."""
    records = spark.readStream.format(source.get("format", "fencepost"))
    return (
        records.options(**settings(source))
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .select(F.from_json(F.col("value").cast("string"), schema).alias("event"))
        .select("event.*")
        .where(f"{time} IS NOT NULL")
        .withWatermark(time, LATE_BY)
    )


def settings(source: Mapping[str, str]) -> dict[str, str]:
    """The options of Kafka's source and sink."""
    return {name: value for name, value in source.items() if name != "format"}


def revenue(orders: DataFrame) -> DataFrame:
    """A row for each minute and item, once no more orders of that minute can count."""
    minutes = orders.groupBy(F.window("at", "1 minute"), "item")
    sums = minutes.agg(F.sum("amount").alias("amount"), F.count("*").alias("orders"))
    return sums.select(F.col("window.start").alias("minute"), "item", "amount", "orders")


def paid_orders(orders: DataFrame, payments: DataFrame) -> DataFrame:
    """Each order with the time of its payment, or with null once it is too late for one."""
    is_paid = f"order_id = id AND paid_at BETWEEN at AND at + INTERVAL {PAID_WITHIN}"
    joined = orders.join(payments, F.expr(is_paid), "leftOuter")
    return joined.select("id", "item", "amount", "at", "paid_at")


def publish(rows: DataFrame, source: Mapping[str, str], topic: str, where: str) -> StreamingQuery:
    """Write rows as JSON to a topic until all that is there now has been read."""
    return (
        rows.select(F.to_json(F.struct("*")).alias("value"))
        .writeStream.queryName(topic)
        .format(source.get("format", "fencepost"))
        .options(**settings(source))
        .option("topic", topic)
        .option("checkpointLocation", f"{where}/{topic}")
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )


def run(
    spark: SparkSession, source: Mapping[str, str], where: str, prefix: str = ""
) -> list[StreamingQuery]:
    """Both queries, one after the other; `prefix` stands before the names of all topics."""
    orders = events(spark, source, f"{prefix}orders", ORDER, "at")
    payments = events(spark, source, f"{prefix}payments", PAYMENT, "paid_at")
    done = []
    for rows, topic in (
        (revenue(orders), f"{prefix}revenue"),
        (paid_orders(orders, payments), f"{prefix}paid-orders"),
    ):
        query = publish(rows, source, topic, where)
        query.awaitTermination()
        done.append(query)
    return done


def main(where: str, source_format: str = "fencepost") -> None:
    if source_format == "fencepost":
        from fencepost.spark.java import ensure_java_home

        ensure_java_home()
        os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    spark = session.getOrCreate()
    servers = os.environ.get("FENCEPOST_BOOTSTRAP", "127.0.0.1:9092")
    source = {"format": source_format, "kafka.bootstrap.servers": servers}
    for query in run(spark, source, where):
        print(query.name, sum(batch.numInputRows for batch in query.recentProgress), "events read")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
