"""Spark's own Kafka connector (the JVM one) against the broker: batch and stream, both ways."""

from __future__ import annotations

import uuid

import pytest

from .apache import run_tool

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"spark-{uuid.uuid4().hex[:8]}"
    run_tool(
        "topics", "--bootstrap-server", bootstrap, "--create", "--topic", name,
        "--partitions", "3", "--replication-factor", "1",
    )  # fmt: skip
    return name


def kafka_options(bootstrap: str, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }


def write_numbers(spark, bootstrap: str, topic: str, start: int, stop: int) -> None:
    rows = spark.range(start, stop).selectExpr("CAST(id AS STRING) key", "CAST(id AS STRING) value")
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    rows.write.format("kafka").options(**options).mode("append").save()


def test_batch_write_and_read(spark, bootstrap, topic):
    write_numbers(spark, bootstrap, topic, 0, 5000)
    frame = spark.read.format("kafka").options(**kafka_options(bootstrap, topic)).load()
    values = sorted(int(row.v) for row in frame.selectExpr("CAST(value AS STRING) v").collect())
    assert values == list(range(5000))
    positions = frame.select("partition", "offset").distinct().count()
    assert positions == 5000


def test_stream_resumes_from_its_checkpoint(spark, bootstrap, topic, tmp_path):
    def run() -> None:
        stream = spark.readStream.format("kafka").options(**kafka_options(bootstrap, topic))
        query = (
            stream.option("maxOffsetsPerTrigger", 400)
            .load()
            .selectExpr("CAST(value AS STRING) v", "partition", "offset")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "out"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert query.exception() is None

    write_numbers(spark, bootstrap, topic, 0, 1000)
    run()
    write_numbers(spark, bootstrap, topic, 1000, 1500)
    run()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(int(row.v) for row in rows) == list(range(1500))
    assert len({(row.partition, row.offset) for row in rows}) == 1500


def test_stream_sink(spark, bootstrap, topic, tmp_path):
    query = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 100)
        .load()
        .selectExpr("CAST(value AS STRING) value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        while len(query.recentProgress) < 3 and query.exception() is None:
            query.awaitTermination(1)
    finally:
        query.stop()
    assert query.exception() is None
    frame = spark.read.format("kafka").options(**kafka_options(bootstrap, topic)).load()
    assert frame.count() >= 300
