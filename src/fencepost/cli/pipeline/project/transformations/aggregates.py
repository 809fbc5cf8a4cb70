"""What the events add up to: a table that each run computes again."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession, functions as F


@dp.materialized_view(comment="Number, sum and last time of the events of each name")
def totals() -> DataFrame:
    rows = SparkSession.active().read.table("cleaned")
    return rows.groupBy("name").agg(
        F.count("*").alias("events"),
        F.sum("amount").alias("amount"),
        F.max("timestamp").alias("last"),
    )
