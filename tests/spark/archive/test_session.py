"""Archives written by Spark itself, in this process's session."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow.dataset import dataset

from fencepost.arrow.archive.layout import ArchiveError, Layout
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.producer import Producer
from fencepost.spark.archive.batches import Written
from fencepost.spark.archive.checking import verify
from fencepost.spark.archive.compaction import compact
from fencepost.spark.archive.comparing import compare
from fencepost.spark.archive.lakes import PACKAGES, how_to_load
from fencepost.spark.archive.progress import offsets_to_read
from fencepost.spark.archive.query import archive_topics, source_options_of
from fencepost.spark.archive.replaying import read_offsets, replay
from fencepost.spark.archive.running import in_tasks
from fencepost.spark.options import sink_options

from ..conftest import spark as spark_session
from ..storage.seaweed import S3Server
from ..test_session import BASE_MS, make_topic

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
DAY_MS = 86_400_000
spark = spark_session


@pytest.fixture
def cluster(served: str) -> Iterator[Cluster]:
    with Cluster(served) as opened:
        yield opened


def fill(cluster: Cluster, topic: str, count: int, first: int = 0) -> None:
    with Producer(cluster) as producer:
        for number in range(first, first + count):
            producer.send(
                topic,
                b"v%d" % number if number % 7 else None,
                b"k%d" % number if number % 5 else None,
                partition=number % 3,
                headers=[("h", b"%d" % number)] if number % 2 else (),
                timestamp_ms=BASE_MS - (number % 11 == 0) * DAY_MS,
            )


@pytest.mark.long
def test_topics_are_archived_compared_and_found_changed(
    spark: Any, cluster: Cluster, served: str, topic: str, tmp_path: Path
):
    make_topic(cluster, topic)
    fill(cluster, topic, 300)
    source = {"kafka.bootstrap.servers": served, "subscribe": topic, "maxOffsetsPerTrigger": "200"}
    layout = Layout(tmp_path / "an archive")
    told: list[Written] = []

    def run() -> None:
        query = archive_topics(spark, source, layout.directory, on_batch=told.append)
        try:
            query.awaitTermination()
        finally:
            query.stop()

    run()
    assert sum(one.rows for one in told) == 300
    assert offsets_to_read(layout, source_options_of(source)) == 0
    fill(cluster, topic, 60, first=300)
    assert offsets_to_read(layout, source_options_of(source)) == 60
    run()
    assert sum(one.rows for one in told) == 360
    compact(layout, in_tasks(spark))
    assert verify(layout, in_tasks(spark)).all_problems == []
    plain = spark.read.parquet(str(layout.directory))
    assert plain.select("partition", "offset").distinct().count() == plain.count() == 360
    brokers = {"kafka.bootstrap.servers": served}
    found = compare(spark, layout, brokers, cluster)
    assert [(one.partition, one.archived, one.in_topic, one.same) for one in found] == [
        (number, 120, 120, True) for number in range(3)
    ]
    Admin(cluster).delete_topic(topic)
    make_topic(cluster, topic)
    with pytest.raises(Exception, match="recreated"):
        run()
    found = compare(spark, layout, brokers, cluster)
    assert {one.condition for one in found} == {"the topic is another one now"}


def test_a_format_that_spark_does_not_have(spark: Any, served: str, tmp_path: Path):
    source = {"kafka.bootstrap.servers": served, "subscribe": "t"}
    for format in PACKAGES:
        text = re.escape(f"no format '{format}': {how_to_load(format, spark.version)}")
        with pytest.raises(ArchiveError, match=text):
            archive_topics(spark, source, tmp_path / format, format=format)
    with pytest.raises(ArchiveError, match=r"no format 'heron'$"):
        archive_topics(spark, source, tmp_path / "heron", format="heron")
    with pytest.raises(ArchiveError, match="option includeHeaders is the archive's own"):
        archive_topics(spark, {**source, "includeHeaders": "false"}, tmp_path / "e")


@pytest.mark.long
def test_an_archive_in_s3_and_its_replay(
    spark: Any, cluster: Cluster, served: str, topic: str, tmp_path: Path, s3: S3Server,
    s3_directory: str,
):  # fmt: skip
    """With Spark's own checkpoint on a disk, so that it needs no file system for S3."""
    make_topic(cluster, topic)
    fill(cluster, topic, 300)
    layout = Layout(f"{s3_directory}/an archive", s3.options)
    source = {"kafka.bootstrap.servers": served, "subscribe": topic, "maxOffsetsPerTrigger": "200"}
    checkpoint = str(tmp_path / "checkpoint")
    for count in (300, 360):
        query = archive_topics(spark, source, layout, checkpoint=checkpoint)
        query.awaitTermination()
        query.stop()
        found = verify(layout, in_tasks(spark))
        assert found.all_problems == []
        assert sum(one.records for one in found.partitions) == count
        fill(cluster, topic, 60, first=count)
    with pytest.raises(ArchiveError, match=r"its checkpoint is in .*/checkpoint, not in"):
        archive_topics(spark, source, layout, checkpoint=f"{tmp_path}/other")
    assert compact(layout, in_tasks(spark)).rows == 360
    plain = dataset(layout.storage.path_of(""), filesystem=s3.filesystem, partitioning="hive")
    assert plain.count_rows() == 360
    options = {
        "kafka.bootstrap.servers": served,
        "topic": f"{topic}-again",
        "deliveryGuarantee": "exactly-once",
        "keepTimestamps": "true",
    }
    replay(layout, sink_options(options), in_tasks(spark), name="r", step_records=70)
    assert read_offsets(layout, "r")["topic"].unique().to_pylist() == [topic]
    names = ["partition", "key", "value", "timestamp"]
    first, again = (
        spark.read.format("fencepost")
        .options(**{"kafka.bootstrap.servers": served, "subscribe": name, **more})
        .load()
        .select(names)
        for name, more in (
            (topic, {"endingOffsets": json.dumps({topic: dict.fromkeys("012", 120)})}),
            (f"{topic}-again", {}),
        )
    )
    assert first.count() == again.count() == 360
    assert first.exceptAll(again).count() == 0
