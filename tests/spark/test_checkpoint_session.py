"""Checkpoints that Spark wrote, changed by the commands, and Spark going on from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.arrow.storage import storage_at
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.spark.checkpoint_edit import OURS, open_checkpoint, plan_offsets, with_offsets
from fencepost.spark.checkpoint_files import checksums_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def cluster(served: str, topic: str) -> Any:
    """With the topic, of one partition."""
    with Cluster(served) as opened:
        Admin(opened).create_topic(topic, 1)
        Admin(opened).wait_for_topic(topic)
        yield opened


def produce(cluster: Cluster, topic: str, first: int, last: int) -> None:
    with Producer(cluster) as producer:
        for number in range(first, last):
            producer.send(topic, b"%d" % number, partition=0)


def move(folder: Path, topic: str, offset: int) -> None:
    storage = storage_at(folder)
    opened = open_checkpoint(storage)
    committed = opened.checkpoint.sources[0].committed
    assert committed is not None
    wanted = with_offsets(committed, {TopicPartition(topic, 0): offset}, dict(committed.topic_ids))
    plan_offsets(opened, {"0": wanted}).apply(storage)


def test_a_query_with_state_and_a_file_sink_goes_on_where_it_was_moved_to(
    spark: Any, served: str, cluster: Cluster, topic: str, tmp_path: Path
):
    """The file sink compacts its log every third batch here, and would fail over a hole in the
    numbers of batches; state is asked for by number, too."""
    folder = tmp_path / "checkpoint"
    interval = "spark.sql.streaming.fileSink.log.compactInterval"
    spark.conf.set(interval, "3")

    def run() -> None:
        frame = (
            spark.readStream.format("fencepost")
            .option("kafka.bootstrap.servers", served)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr("CAST(value AS STRING) v")
        )
        query = (
            frame.dropDuplicates(["v"])
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(folder))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert query.exception() is None

    total = 0
    for step in range(2):
        produce(cluster, topic, total, total + 4)
        total += 4
        run()
        for batch in folder.glob("offsets/[0-9]*"):
            sums = folder / "offsets" / f".{batch.name}.crc"
            assert sums.read_bytes() == checksums_of(batch.read_bytes())  # Spark's, or ours
        move(folder, topic, max(0, total - 6))
        run()
        assert open_checkpoint(storage_at(folder)).checkpoint.committed_batch == 2 * step + 1
    found = sorted(int(row.v) for row in spark.read.parquet(str(tmp_path / "out")).collect())
    assert found == list(range(total))  # records read again are known to the state
    (operator,) = open_checkpoint(storage_at(folder)).operators
    assert (operator.number, operator.name) == (0, "dedupe")
    assert open_checkpoint(storage_at(folder)).connector("0") == OURS
    spark.conf.unset(interval)


def test_exactly_what_is_behind_the_new_offset_is_read(
    spark: Any, served: str, cluster: Cluster, topic: str, tmp_path: Path
):
    produce(cluster, topic, 0, 9)
    seen: list[int] = []
    frame = (
        spark.readStream.format("fencepost")
        .option("kafka.bootstrap.servers", served)
        .option("subscribe", topic)
        .load()
    )

    def run() -> None:
        query = (
            frame.writeStream.foreachBatch(
                lambda rows, _: seen.extend(row.offset for row in rows.collect())
            )
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert query.exception() is None

    run()
    assert seen == []  # it starts at the latest offset
    move(tmp_path, topic, 2)
    assert json.loads((tmp_path / "offsets" / "0").read_text().split("\n")[2])[topic] == {"0": 2}
    run()
    assert sorted(seen) == list(range(2, 9))
