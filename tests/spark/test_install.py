"""`format("kafka")` without Spark's connector: what it means once installed, and is taken back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fencepost.spark
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.spark.errors import condition_of
from fencepost.spark.install import _classes, is_installed

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def installed() -> Iterator[None]:
    fencepost.spark.install()
    yield
    fencepost.spark.uninstall()


@pytest.fixture
def made(served: str, topic: str) -> str:
    with Cluster(served) as cluster:
        Admin(cluster).create_topic(topic, 2)
        Admin(cluster).wait_for_topic(topic)
    return topic


def values(spark: Any, served: str, topic: str, name: str = "kafka") -> list[str]:
    rows = spark.read.format(name).option("kafka.bootstrap.servers", served)
    rows = rows.option("subscribe", topic).load().selectExpr("CAST(value AS STRING) v")
    return sorted(row.v for row in rows.collect())


def writer(spark: Any, served: str, topic: str, *words: str) -> Any:
    rows = spark.createDataFrame([(word,) for word in words], "value string")
    return rows.write.option("kafka.bootstrap.servers", served).option("topic", topic)


def test_methods_are_wrapped_once_and_given_back():
    before = {(kind, name): getattr(kind, name, None) for kind in _classes() for name in METHODS}
    fencepost.spark.install()
    try:
        fencepost.spark.install()
        assert is_installed()
        assert all(kind.format is not before[kind, "format"] for kind in _classes())
    finally:
        fencepost.spark.uninstall()
    assert not is_installed()
    assert before == {(kind, name): getattr(kind, name, None) for kind, name in before}
    fencepost.spark.uninstall()


METHODS = ("format", "mode", "outputMode", "option", "options", "start")


def test_kafka_is_sparks_own_again_after_uninstall(spark: Any, installed: None):
    fencepost.spark.uninstall()
    # Which the session has not, unless tests of the interop suite in this process have loaded it.
    told = r"Failed to find data source: kafka|must be specified|kafka010"
    with pytest.raises(Exception, match=told) as raised:
        spark.read.format("kafka").load()
    assert condition_of(raised.value) is None


@pytest.mark.usefixtures("installed")
def test_batches_are_written_without_a_mode_and_read(spark: Any, served: str, made: str):
    writer(spark, served, made, "a").format("kafka").save()
    writer(spark, served, made, "b").mode("errorifexists").format("Kafka").save()
    writer(spark, served, made, "c").format("fencepost").mode("error").save()
    writer(spark, served, made, "d").save(format="kafka", mode="append")
    for mode in ("overwrite", "ignore"):
        with pytest.raises(Exception, match=r"overwritten|SAVE_MODE"):
            writer(spark, served, made, "x").format("kafka").mode(mode).save()
    assert values(spark, served, made) == ["a", "b", "c", "d"]


@pytest.mark.usefixtures("installed")
def test_other_formats_keep_their_default_mode(spark: Any, tmp_path: Path):
    rows = spark.range(3)
    rows.write.format("kafka").format("parquet").save(str(tmp_path / "out"))
    with pytest.raises(Exception, match="already exists"):
        rows.write.format("parquet").save(str(tmp_path / "out"))
    rows.write.mode("overwrite").format("parquet").save(str(tmp_path / "out"))


@pytest.mark.long
@pytest.mark.usefixtures("installed")
def test_streams_of_every_output_mode(spark: Any, served: str, made: str, tmp_path: Path):
    writer(spark, served, made, *"aab").format("kafka").save()
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", served)
    rows = source.option("subscribe", made).option("startingOffsets", "earliest").load()
    counted = rows.groupBy("value").count()
    counted = counted.selectExpr("concat(CAST(value AS STRING), CAST(count AS STRING)) value")
    once = {"deliveryGuarantee": "exactly-once"}
    for mode, options in (("update", {}), ("complete", {}), ("update", once)):
        target = f"{made}-{mode}-{len(options)}"
        with Cluster(served) as cluster:
            Admin(cluster).create_topic(target, 1)
            Admin(cluster).wait_for_topic(target)
        query = (
            counted.writeStream.trigger(availableNow=True)
            .option("kafka.bootstrap.servers", served)
            .option("topic", target)
            .option("checkpointLocation", str(tmp_path / target))
            .options(**options)
            .start(format="kafka", outputMode=mode)
        )
        query.awaitTermination()
        assert query.exception() is None
        assert values(spark, served, target) == ["a2", "b1"]


def test_a_session_can_be_told(spark: Any, installed: None, served: str, made: str):
    fencepost.spark.install(spark)
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    writer(spark, served, made, "a").format("kafka").save()
    assert values(spark, served, made, "fencepost") == ["a"]
