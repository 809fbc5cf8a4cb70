"""Events with typed columns, and records that are none. Their fields are in spark-pipeline.yml."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession, functions as F

EVENT = str(SparkSession.active().conf.get("spark.pipeline.event"))
UNUSABLE = "json IS NULL OR json.name IS NULL OR json.amount IS NULL"


def parsed() -> DataFrame:
    """The rows of `raw` with a column `json`, which has nulls where the event is no such object.

    With `select` alone: Spark 4.3 asks for the schema of the table, which may not exist yet, as
    soon as it sees `withColumn` or `drop`.
    """
    rows = SparkSession.active().readStream.table("raw")
    return rows.select("*", F.from_json("event", EVENT).alias("json"))


@dp.table(comment="Events that could be read")
def cleaned() -> DataFrame:
    rows = parsed().where(f"NOT ({UNUSABLE})")
    return rows.select("json.*", "topic", "partition", "offset", "timestamp")


@dp.table(comment="Records that could not be read as events, as they are")
def rejected() -> DataFrame:
    return parsed().where(UNUSABLE).select("key", "event", "topic", "partition", "offset")
