"""Archives that go on in the topic that they were replayed into, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fencepost.arrow.archive.layout import REPLAYS, ArchiveError
from fencepost.arrow.archive.state import read_state
from fencepost.arrow.checkpoint import CheckpointError, read_checkpoint
from fencepost.arrow.errors import DataLossError
from fencepost.arrow.stream_planner import StreamPlanner
from fencepost.arrow.survey import Survey
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.spark.archive.checking import verify
from fencepost.spark.archive.continuing import continue_archive
from fencepost.spark.archive.replaying import replay
from fencepost.spark.options import source_options

from ...waiting import eventually
from .test_replay import read, sink
from .worlds import World, archive_written, expected, write_as_tasks

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
ALL = {0: (0, 50), 1: (0, 35)}


@pytest.fixture
def cluster(served: str) -> Iterator[Cluster]:
    with Cluster(served, isolation_level="read_committed") as opened:
        yield opened


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "a")
    made.archive({0: (0, 20), 1: (0, 35)}, begins={0: 0, 1: 0})
    made.archive({0: (20, 50), 1: (35, 35)})
    note_end(made)
    return made


def note_end(world: World) -> None:
    """As Spark notes that the last batch is done."""
    last = read_state(world.layout).batch
    (world.checkpoint / "commits" / str(last)).write_text("v1\n{}\n")


def replayed(world: World, served: str, topic: str, name: str = "r") -> None:
    replay(world.layout, sink(served, topic), name=name, step_records=15)


def produce(served: str, topic: str, count: int) -> None:
    with Cluster(served) as plain, Producer(plain) as producer:
        for number in range(count):
            producer.send(topic, b"new %d" % number, partition=number % 2)


def archive_run(world: World, served: str, topic: str) -> None:
    """What `fencepost archive run DIR TOPIC` has Spark do: plan from where the checkpoint is, read,
    archive."""
    given = {"kafka.bootstrap.servers": served, "subscribe": topic}
    given["kafka.isolation.level"] = "read_committed"
    options = source_options(given, streaming=True)
    number = read_state(world.layout).batch + 1
    path = world.checkpoint / "offsets" / str(number - 1)
    start = json.loads(path.read_text().splitlines()[-1])
    with Cluster(config=options.client) as cluster:
        planner = StreamPlanner(options, Survey(options, cluster))
        end = planner.next_end(start, limited=False)
        assert end != start
        rows = [
            row
            for wanted in planner.ranges(start, end)
            for row in rows_of(cluster, wanted.partition, wanted.start, wanted.end)
        ]
    after = world.checkpoint / "offsets" / str(number)
    after.write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(end)}\n')
    write = write_as_tasks(world.layout.storage, topic, rows)
    assert archive_written(world.layout, number, write) is not None
    note_end(world)


def rows_of(cluster: Cluster, where: TopicPartition, start: int, end: int) -> list[dict[str, Any]]:
    return [
        {
            "key": one.key,
            "value": one.value,
            "headers": None,
            "partition": where.partition,
            "offset": one.offset,
            "timestamp": datetime.fromtimestamp(one.timestamp_ms / 1000, UTC),
            "timestampType": 0,
        }
        for fetched in Fetcher(cluster).read_range(where, start, end)
        for one in fetched.read_records(end)
        if one.offset >= start
    ]


def test_an_archive_goes_on_where_its_replay_ended_and_has_every_record_once(
    cluster: Cluster, served: str, world: World, topic: str
):
    replayed(world, served, topic)
    produce(served, topic, 7)
    before = world.offsets()
    found = continue_archive(world.layout, cluster, "r")
    ends = {p: max(one.offset for one in records) for p, records in read(cluster, topic).items()}
    for where, at in found.items():
        assert where.topic == topic
        assert at.offset <= ends[where.partition]
        assert at.leader_epoch >= 0
    (source,) = read_checkpoint(world.layout.storage.within("_fencepost/checkpoint")).sources
    assert source.committed is not None
    assert dict(source.committed.positions) == found
    assert source.committed.topic_ids == {topic: str(cluster.topic(topic).topic_id)}
    archive_run(world, served, topic)
    produce(served, topic, 4)
    archive_run(world, served, topic)
    old, new = read_state(world.layout).incarnations
    assert (old.topic, new.topic) == ("t", topic)
    assert [row for row in world.offsets() if row in before] == before
    values = [row["value"] for row in world.records() if (row["value"] or b"").startswith(b"new")]
    assert sorted(values) == sorted(
        [*(b"new %d" % n for n in range(7)), *(b"new %d" % n for n in range(4))]
    )
    assert len(world.records()) == len(expected(ALL)) + 11
    assert verify(world.layout).all_problems == []
    with pytest.raises(ArchiveError, match=f"goes on in {topic} already"):
        continue_archive(world.layout, cluster, "r")


def test_records_that_are_no_part_of_the_replay_are_refused_by_their_offset(
    cluster: Cluster, served: str, world: World, topic: str
):
    """They are before its end, so the archive would never have them."""
    replayed(world, served, topic, "first")
    Admin(cluster).create_topic(f"{topic}-b", 2)
    Admin(cluster).wait_for_topic(f"{topic}-b")
    produce(served, f"{topic}-b", 3)
    replayed(world, served, f"{topic}-b", "second")
    with pytest.raises(ArchiveError, match=r"-b-0: the record at offset 0 is none that was repl"):
        continue_archive(world.layout, cluster, "second")
    continue_archive(world.layout, cluster, "first")


def test_what_was_archived_since_the_replay_is_not_in_the_new_topic(
    cluster: Cluster, served: str, world: World, topic: str
):
    replayed(world, served, topic)
    world.archive({0: (50, 53), 1: (35, 35)})
    note_end(world)
    with pytest.raises(ArchiveError, match=r"offsets of t-0 up to 5\d, and was replayed up to 50"):
        continue_archive(world.layout, cluster, "r")


def test_a_replay_that_is_not_done_or_has_no_end(
    cluster: Cluster, served: str, world: World, topic: str
):
    replayed(world, served, topic)
    place = world.layout.local(f"{REPLAYS}/r")
    (place / "end.json").rename(place / "kept")
    with pytest.raises(ArchiveError, match="is not done, or of a version that did not note"):
        continue_archive(world.layout, cluster, "r")
    (place / "end.json").write_text("{")
    with pytest.raises(ArchiveError, match=r"end\.json: no end of a replay"):
        continue_archive(world.layout, cluster, "r")
    (place / "kept").rename(place / "end.json")
    (place / "offsets-000003.parquet").rename(place / "offsets-000003.staged")
    with pytest.raises(ArchiveError, match="is not done"):
        continue_archive(world.layout, cluster, "r")
    with pytest.raises(ArchiveError, match="no replay 'other'; there are: r"):
        continue_archive(world.layout, cluster, "other")


def test_a_batch_that_spark_has_not_noted(cluster: Cluster, served: str, world: World, topic: str):
    replayed(world, served, topic)
    (world.checkpoint / "commits" / "1").unlink()
    with pytest.raises(CheckpointError, match="batch 1 is archived, and Spark has noted 0"):
        continue_archive(world.layout, cluster, "r")


def recreate(cluster: Cluster, topic: str) -> None:
    admin = Admin(cluster)
    admin.delete_topic(topic)
    eventually(lambda: topic not in [one.name for one in cluster.describe(None)])
    admin.create_topic(topic, 2)
    admin.wait_for_topic(topic)


def test_a_topic_that_was_created_again_is_refused_before_and_after(
    cluster: Cluster, served: str, world: World, topic: str
):
    """By the command; by a replay that goes on, which would leave out what it did before; and by
    the archive's query once it goes on there."""
    replayed(world, served, topic)
    continue_archive(world.layout, cluster, "r")
    recreate(cluster, topic)
    with pytest.raises(ArchiveError, match="created again since the replay"):
        continue_archive(world.layout, cluster, "r")
    with pytest.raises(ArchiveError, match="has nothing of what was replayed before"):
        replayed(world, served, topic)
    produce(served, topic, 3)
    with pytest.raises(DataLossError, match="deleted and created again"):
        archive_run(world, served, topic)
