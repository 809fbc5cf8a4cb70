"""Check orders in foreachBatch: good ones go to a topic and a table, bad ones to another topic.

    python checked.py PLACE

reads what is new in the topic `orders`, writes to `checked-orders` and `dead-orders` and to Parquet
files in PLACE, ends, and prints the table: the newest state of each order. A batch that is run
again after a kill writes nothing twice: both topics know it by its key, and its files are replaced.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.streaming import StreamingQuery

from fencepost.spark import in_batch

ORDER = "id long, item string, amount long, status string"


def check(records: DataFrame) -> DataFrame:
    """The records with the column `event`, and `reason`: null, or why the record is no order."""
    event = F.from_json(F.col("value").cast("string"), ORDER)
    reason = (
        F.when(F.col("value").isNull(), "the record has no value")
        .when(F.col("event.id").isNull(), "the value is no JSON with a number as id")
        .when(F.col("event.amount").isNull(), "the order has no amount")
        .when(F.col("event.amount") < 0, "the amount is negative")
    )
    return records.withColumn("event", event).withColumn("reason", reason)


def dead_letters(bad: DataFrame) -> DataFrame:
    """Key and value as they were, and headers of Kafka Connect's names: from where, and why."""
    told = {
        "topic": F.col("topic"),
        "partition": F.col("partition").cast("string"),
        "offset": F.col("offset").cast("string"),
        "exception.message": F.col("reason"),
    }
    headers = F.array(
        *(
            F.struct(
                F.lit(f"__connect.errors.{name}").alias("key"),
                text.cast("binary").alias("value"),
            )
            for name, text in told.items()
        )
    )
    return bad.select("key", "value", headers.alias("headers"))


def newest_of_each(events: DataFrame) -> DataFrame:
    """The last state of each order. All records of an order have its id as their key, so they are
    in one partition, and offsets say which is later."""
    newest = events.groupBy("id").agg(F.max_by(F.struct("*"), "offset").alias("newest"))
    return newest.select("newest.*")


def publisher(
    sink: Mapping[str, str], place: str, prefix: str = ""
) -> Callable[[DataFrame, int], None]:
    """The function for foreachBatch."""

    def publish(frame: DataFrame, batch_id: int) -> None:
        checked = check(frame).persist()  # read once for the three writes
        good = checked.where("reason IS NULL")
        once = {**sink, **in_batch(frame, batch_id)}
        for rows, topic in (
            (good.select("key", "value"), "checked-orders"),
            (dead_letters(checked.where("reason IS NOT NULL")), "dead-orders"),
        ):
            write = rows.write.format("fencepost").options(**once)
            write.option("topic", f"{prefix}{topic}").mode("append").save()
        states = newest_of_each(good.select("event.*", "offset"))
        states.coalesce(1).write.mode("overwrite").parquet(f"{place}/orders/batch={batch_id}")
        checked.unpersist()

    return publish


def table(spark: SparkSession, place: str) -> DataFrame:
    """The newest state of each order that is not cancelled."""
    files = f"{ORDER}, offset long"
    return newest_of_each(spark.read.schema(files).parquet(f"{place}/orders")).where(
        "status IS DISTINCT FROM 'cancelled'"
    )


def run(
    spark: SparkSession, sink: Mapping[str, str], place: str, prefix: str = ""
) -> StreamingQuery:
    """Start the query, which ends when it has read all that is there now."""
    return (
        spark.readStream.format("fencepost")
        .options(**sink)
        .option("subscribe", f"{prefix}orders")
        .option("startingOffsets", "earliest")
        .load()
        .writeStream.foreachBatch(publisher(sink, place, prefix))
        .queryName("checked-orders")
        .option("checkpointLocation", f"{place}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )


def main(place: str) -> None:
    from fencepost.spark.java import ensure_java_home

    ensure_java_home()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    spark = session.getOrCreate()
    servers = os.environ.get("FENCEPOST_BOOTSTRAP", "127.0.0.1:9092")
    run(spark, {"kafka.bootstrap.servers": servers}, place).awaitTermination()
    table(spark, place).orderBy("id").show()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
