"""Replays into topics of a served broker, without Spark: order, offsets, kills, refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.arrow import storage as storages
from fencepost.arrow.archive.layout import REPLAYS, ArchiveError
from fencepost.arrow.storage import LocalStorage
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.client.producer import Producer
from fencepost.spark import exactly_once
from fencepost.spark.archive import replay_plan, replaying as replays
from fencepost.spark.archive.compaction import compact
from fencepost.spark.archive.offset_map import each_offset, translate
from fencepost.spark.archive.replaying import Plan, StepDone, read_offsets, replay
from fencepost.spark.archive.running import here
from fencepost.spark.options import SinkOptions, sink_options

from ...waiting import eventually
from .worlds import World, expected, record

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
    return made


def sink(served: str, topic: str) -> SinkOptions:
    return sink_options(
        {
            "kafka.bootstrap.servers": served,
            "kafka.retry.backoff.ms": "1",
            "kafka.retry.backoff.max.ms": "20",
            "topic": topic,
            "deliveryGuarantee": "exactly-once",
            "keepTimestamps": "true",
        }
    )


def read(cluster: Cluster, topic: str) -> dict[int, list[Any]]:
    """What readers of committed records see, per partition."""
    eventually(
        lambda: (
            not [
                one
                for one in Admin(cluster).list_transactions(
                    states=("Ongoing", "PrepareCommit", "PrepareAbort")
                )
                if one.transactional_id.startswith("fencepost-replay-")
            ]
        )
    )
    partitions = [TopicPartition(topic, n) for n in cluster.topic(topic).partitions]
    ends = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    return {
        where.partition: [
            one
            for fetched in Fetcher(cluster).read_range(where, 0, ends[where].offset)
            for one in fetched.read_records(ends[where].offset)
        ]
        for where in partitions
    }


def as_record(partition: int, one: Any) -> tuple[Any, ...]:
    return (
        one.key,
        one.value,
        [(h[0], h[1]) for h in one.headers],
        partition,
        one.timestamp_ms,
    )


def archived(partition: int, offset: int) -> tuple[Any, ...]:
    one = record(partition, offset)
    return (
        one["key"],
        one["value"],
        [(h["key"], h["value"]) for h in one["headers"] or ()],
        partition,
        round(one["timestamp"].timestamp() * 1000),
    )


def check(cluster: Cluster, topic: str, ranges: dict[int, tuple[int, int]] = ALL) -> None:
    found = read(cluster, topic)
    for partition, (start, end) in ranges.items():
        seen = [as_record(partition, one) for one in found[partition]]
        assert seen == [archived(partition, offset) for offset in range(start, end)]


def check_offsets(cluster: Cluster, world: World, name: str, topic: str) -> None:
    """The table says for every record where it is."""
    found = {
        (p, one.offset): one.value for p, records in read(cluster, topic).items() for one in records
    }
    rows = list(each_offset(read_offsets(world.layout, name)))
    assert len(rows) == len(found)
    for _, _, old_partition, old, new_topic, new_partition, new in rows:
        assert new_topic == topic
        assert found[new_partition, new] == record(old_partition, old)["value"]


def test_records_come_back_as_they_were(cluster: Cluster, served: str, world: World, topic: str):
    done: list[StepDone] = []
    plan = replay(world.layout, sink(served, topic), name="r", step_records=15, on_step=done.append)
    assert (plan.topic, len(plan.steps), sum(one.rows for one in done)) == ("t", 4, 85)
    check(cluster, topic)
    check_offsets(cluster, world, "r", topic)
    assert Admin(cluster).describe_topic(topic).partitions.keys() == {0, 1}
    done.clear()
    replay(world.layout, sink(served, topic), name="r", on_step=done.append)
    assert done == []
    check(cluster, topic)


def test_a_compacted_archive_of_two_topics_of_one_name(
    cluster: Cluster, served: str, world: World, topic: str
):
    world.topic_id = "id-2"
    world.archive({0: (0, 7)}, begins={0: 0})
    compact(world.layout)
    replay(world.layout, sink(served, topic), name="r")
    found = read(cluster, topic)[0]
    assert [as_record(0, one) for one in found] == [
        archived(0, offset) for offset in (*range(50), *range(7))
    ]
    ids = [row[1] for row in each_offset(read_offsets(world.layout, "r")) if row[2] == 0]
    assert ids == ["id-1"] * 50 + ["id-2"] * 7


def test_partitions_by_key_keep_the_order_of_each_key(
    cluster: Cluster, served: str, world: World, topic: str
):
    Admin(cluster).create_topic(topic, 5)
    Admin(cluster).wait_for_topic(topic)
    replay(world.layout, sink(served, topic), name="r", keep_partitions=False, step_records=20)
    check_offsets(cluster, world, "r", topic)
    places: dict[Any, set[int]] = {}
    for partition, records in read(cluster, topic).items():
        for one in records:
            places.setdefault(one.key, set()).add(partition)
    assert all(len(found) == 1 for key, found in places.items() if key is not None)
    rows = sorted(each_offset(read_offsets(world.layout, "r")), key=lambda row: (row[5], row[6]))
    for number in (0, 1):
        for partition in range(5):
            old = [row[3] for row in rows if (row[2], row[5]) == (number, partition)]
            assert old == sorted(old)


def test_records_of_others_in_between(cluster: Cluster, served: str, world: World, topic: str):
    Admin(cluster).create_topic(topic, 2)
    Admin(cluster).wait_for_topic(topic)

    def somebody_writes(done: StepDone) -> None:
        with Producer(cluster) as producer:
            producer.send(topic, b"other", partition=done.step % 2)

    replay(world.layout, sink(served, topic), name="r", step_records=15, on_step=somebody_writes)
    found = read(cluster, topic)
    ours = {p: [one for one in some if one.value != b"other"] for p, some in found.items()}
    assert [as_record(0, one) for one in ours[0]] == [archived(0, n) for n in range(50)]
    rows = list(each_offset(read_offsets(world.layout, "r")))
    by_place = {(p, one.offset): one.value for p, some in found.items() for one in some}
    assert all(by_place[row[5], row[6]] == record(row[2], row[3])["value"] for row in rows)


class KilledError(BaseException):
    """The driver is gone."""


STEPS = [
    (exactly_once.SinkDriver, "open"),
    (replays, "_write_offsets"),
    (exactly_once, "end_all"),
    (exactly_once, "record_decision"),
    (exactly_once.SinkDriver, "commit"),
    (storages.Path, "rename"),
    (LocalStorage, "move_all"),
]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("count", [4, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "number",
    [n if n in (3, 5) else pytest.param(n, marks=pytest.mark.long) for n in range(len(STEPS))],
)
def test_a_driver_that_dies_at_any_step_replays_once(
    cluster: Cluster,
    served: str,
    world: World,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    count: int,
    after: bool,
):
    place, name = STEPS[number]
    original = getattr(place, name)
    calls = 0

    def dying(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count and not after:
            raise KilledError
        try:
            return original(*arguments, **options)
        finally:
            if calls == count:
                raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(place, name, dying)
        with pytest.raises(KilledError):
            replay(world.layout, sink(served, topic), name="r", step_records=15)
    exactly_once._given.clear()  # what the process remembered is gone with it
    replay(world.layout, sink(served, topic), name="r")
    check(cluster, topic)
    check_offsets(cluster, world, "r", topic)


def test_a_task_that_is_tried_again(cluster: Cluster, served: str, world: World, topic: str):
    calls = 0

    def run(work: Any, pieces: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            here(work, pieces)  # whose results are lost
            exactly_once._given.clear()
            raise KilledError
        return here(work, pieces)

    with pytest.raises(KilledError):
        replay(world.layout, sink(served, topic), run, name="r", step_records=15)
    replay(world.layout, sink(served, topic), run, name="r")
    check(cluster, topic)
    check_offsets(cluster, world, "r", topic)


def test_a_group_goes_on_in_the_new_topic(cluster: Cluster, served: str, world: World, topic: str):
    Admin(cluster).create_topic(topic, 2)
    Admin(cluster).wait_for_topic(topic)
    with Producer(cluster) as producer:
        for _ in range(3):
            producer.send(topic, b"before", partition=0)
    replay(world.layout, sink(served, topic), name="r", step_records=20)
    table = read_offsets(world.layout, "r")
    old = {TopicPartition("t", 0): 30, TopicPartition("t", 1): 35}
    found = translate(table, old, ["id-1"])
    records = read(cluster, topic)
    at = next(one for one in records[0] if one.offset >= found[TopicPartition(topic, 0)])
    assert at.value == record(0, 30)["value"]
    assert not [one for one in records[1] if one.offset >= found[TopicPartition(topic, 1)]]


def test_what_is_refused(cluster: Cluster, served: str, world: World, topic: str):
    options = sink(served, topic)
    with pytest.raises(ArchiveError, match="has no topic 'x', but t"):
        replay(world.layout, options, name="r", topic="x")
    with pytest.raises(ArchiveError, match="a replay's name has letters"):
        replay(world.layout, options, name="../r")
    Admin(cluster).create_topic(topic, 1)
    with pytest.raises(ArchiveError, match="has 1 partitions, and t had 2"):
        replay(world.layout, options, name="r")
    other = f"{topic}-2"
    Admin(cluster).create_topic(other, 2, configs={"message.timestamp.type": "LogAppendTime"})
    with pytest.raises(ArchiveError, match="has LogAppendTime"):
        replay(world.layout, sink(served, other), name="q")
    with pytest.raises(ArchiveError, match=r"is of a replay of t into .* with partitions kept"):
        replay(world.layout, sink(served, f"{topic}-3"), name="r")
    with pytest.raises(ArchiveError, match="no replay 'x'; there are: q, r"):
        read_offsets(world.layout, "x")
    (world.layout.local(REPLAYS) / "r" / "plan.json").write_text(json.dumps({"format": 1}))
    with pytest.raises(ArchiveError, match="no plan of a replay"):
        replay(world.layout, options, name="r")


def test_a_damaged_file_fails_the_step_and_nothing_of_it_is_seen(
    cluster: Cluster, served: str, world: World, topic: str
):
    path = world.layout.local(world.layout.listing()[0][0].path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ArchiveError, match="cannot be read"):
        replay(world.layout, sink(served, topic), name="r")
    assert not any(read(cluster, topic).values())
    path.write_bytes(whole)
    replay(world.layout, sink(served, topic), name="r")
    check(cluster, topic)
    assert isinstance(replay_plan.read_plan(world.layout.storage.within(f"{REPLAYS}/r")), Plan)
    assert expected(ALL) == world.offsets()
