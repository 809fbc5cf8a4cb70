"""What the flights say: typed events, delays by carrier and by hour, and the busiest routes."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession, functions as F

EVENT = """
    year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int,
    sched_arr_time int, arr_delay int, carrier string, flight int, origin string, dest string,
    air_time int, distance int, hour int, minute int
"""
LATE_MINUTES = 15


@dp.materialized_view(comment="One row per flight with typed columns; cancelled ones have no delay")
def flights() -> DataFrame:
    raw = SparkSession.active().read.table("flights_raw")
    event = F.from_json("event", EVENT).alias("event")
    return raw.select("tailnum", "timestamp", event).select("tailnum", "timestamp", "event.*")


def delays(by: str) -> DataFrame:
    """Counts and departure delays in minutes, grouped by the column `by`."""
    late = F.when(F.col("dep_delay") >= LATE_MINUTES, 1.0).otherwise(0.0)
    return (
        SparkSession.active()
        .read.table("flights")
        .groupBy(by)
        .agg(
            F.count("*").alias("flights"),
            F.sum(F.col("dep_delay").isNull().cast("int")).alias("cancelled"),
            F.round(F.avg("dep_delay"), 1).alias("mean_delay_min"),
            F.percentile_approx("dep_delay", 0.9).alias("p90_delay_min"),
            F.round(100 * F.avg(F.when(F.col("dep_delay").isNotNull(), late)), 1).alias("late_pct"),
        )
    )


@dp.materialized_view(comment="Departure delays of each airline")
def delays_by_carrier() -> DataFrame:
    return delays("carrier")


@dp.materialized_view(comment="Departure delays by scheduled hour of the day")
def delays_by_hour() -> DataFrame:
    return delays("hour")


@dp.materialized_view(comment="The twenty routes flown most often")
def busiest_routes() -> DataFrame:
    return (
        SparkSession.active()
        .read.table("flights")
        .groupBy("origin", "dest")
        .agg(
            F.count("*").alias("flights"),
            F.countDistinct("carrier").alias("carriers"),
            F.round(F.avg("dep_delay"), 1).alias("mean_delay_min"),
        )
        .orderBy(F.desc("flights"), "origin", "dest")
        .limit(20)
    )
