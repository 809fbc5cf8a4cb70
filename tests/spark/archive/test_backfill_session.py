"""A topic that begins in an archive, read by Spark as a batch, and as a stream that fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.spark.archive.query import archive_topics
from fencepost.spark.errors import condition_of

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]
PARTITIONS = 2
COLUMNS = "CAST(value AS STRING) v", "partition", "offset", "timestamp", "headers", "topic"


@pytest.fixture
def cluster(served: str, topic: str) -> Any:
    with Cluster(served) as opened:
        Admin(opened).create_topic(topic, PARTITIONS)
        Admin(opened).wait_for_topic(topic)
        yield opened


def produce(cluster: Cluster, topic: str, first: int, last: int) -> None:
    with Producer(cluster) as producer:
        for number in range(first, last):
            producer.send(
                topic,
                b"%d" % number,
                b"k%d" % number,
                partition=number % PARTITIONS,
                headers=[("h", b"%d" % number)] if number % 3 else (),
            )


def test_backfill_and_live_are_one_source(
    spark: Any, served: str, cluster: Cluster, topic: str, tmp_path: Path
):
    source = {"kafka.bootstrap.servers": served, "subscribe": topic}
    given = {**source, "archive": str(tmp_path / "archive"), "includeHeaders": "true"}

    def whole(**more: str) -> Any:
        return spark.read.format("fencepost").options(**{**given, **more}).load()

    def archive() -> None:
        assert archive_topics(spark, source, tmp_path / "archive").awaitTermination(120)

    seen: list[str] = []

    def stream(*, fails: bool = False, **more: str) -> None:
        def take(rows: Any, batch: int) -> None:
            found = [row.v for row in rows.selectExpr("CAST(value AS STRING) v").collect()]
            if fails and batch == 2:
                raise RuntimeError("on purpose")
            seen.extend(found)

        options = {**given, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "15", **more}
        if not options["archive"]:
            del options["archive"]
        query = (
            spark.readStream.format("fencepost")
            .options(**options)
            .load()
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(120)
        except Exception:
            if not fails:
                raise

    produce(cluster, topic, 0, 40)
    archive()
    before = {row.v: row for row in whole().selectExpr(*COLUMNS).collect()}
    Admin(cluster).delete_records({TopicPartition(topic, 0): 15, TopicPartition(topic, 1): 20})
    produce(cluster, topic, 40, 60)
    # As a batch: rows from files are those that brokers gave before.
    rows = whole(minPartitions="5").selectExpr(*COLUMNS).collect()
    assert sorted(int(row.v) for row in rows) == list(range(60))
    assert {row.v: row for row in rows if int(row.v) < 40} == before
    few = spark.read.schema("offset bigint, partition int").format("fencepost").options(**given)
    assert few.load().where("partition = 0 AND offset BETWEEN 10 AND 17").count() == 8
    # As a stream: killed in its middle, the topic ages on, the archive goes on.
    stream(fails=True)
    archive()
    Admin(cluster).delete_records({TopicPartition(topic, 0): 25})
    produce(cluster, topic, 60, 70)
    stream()
    assert sorted(map(int, seen)) == list(range(70))
    # Caught up, the query does without the archive.
    produce(cluster, topic, 70, 75)
    stream(archive="")
    assert sorted(map(int, seen)) == list(range(75))
    # What neither has is named.
    Admin(cluster).delete_records({TopicPartition(topic, 1): 34})
    with pytest.raises(Exception, match="KAFKA_DATA_LOSS") as caught:
        whole().collect()
    condition = condition_of(caught.value)
    assert condition is not None
    assert condition.name == "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"
    assert (condition.parameters["startOffset"], condition.parameters["endOffset"]) == ("30", "34")
