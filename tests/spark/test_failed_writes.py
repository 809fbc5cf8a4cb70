"""What the attempts of a failed exactly-once write leave: no open transaction that readers would
wait for, whether or not Spark has a result of any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.errors import ConnectionFailed
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import LATEST, list_offsets
from fencepost.spark.exactly_once import SinkDriver
from fencepost.spark.sink_errors import SinkFencedError

from ..waiting import eventually
from .exactly_once_world import Fuse, World
from .test_exactly_once_session import wait_for_markers, writing

pytestmark = pytest.mark.timeout(600)
MakeWorld = Callable[..., World]


@pytest.fixture(params=["TV2", "TV1"])
def world(request: pytest.FixtureRequest, make_world: MakeWorld) -> World:
    return make_world(is_tv2=request.param == "TV2", batches=1)


def written_records(world: World) -> int:
    """Records and markers in the topic, as consumers of uncommitted records see them."""
    with Cluster(world.servers) as cluster:
        partitions = [TopicPartition(world.topic, number) for number in range(2)]
        return sum(
            one.offset for one in list_offsets(cluster, dict.fromkeys(partitions, LATEST)).values()
        )


def ends_without_results(world: World) -> None:
    """A write fails whose tasks have rows in their topic, and none a result."""
    with world.cluster() as cluster:
        grant = world.open(cluster)
        world.written(cluster, grant, 0)
        assert len(world.still_open()) == world.tasks
        SinkDriver(cluster, world.sink).abort([], grant)
        assert world.still_open() == []
    assert world.live()
    assert world.committed() == world.expected()


def test_attempts_without_a_result_are_aborted(world: World):
    ends_without_results(world)


@pytest.mark.parametrize("has_spare", [False, True])
def test_attempts_that_open_while_their_write_is_aborted(make_world: MakeWorld, has_spare: bool):
    """Behind the first list of open transactions, and before the sink is taken over; also those
    with ids of a run before, which are used again."""
    world = make_world(batches=3)
    fuse = Fuse()
    with world.cluster(fuse) as ending, world.cluster() as cluster:
        done = 2 if has_spare else 0
        for batch in range(done):
            world.new_process()
            world.commit(cluster, world.written(cluster, world.open(cluster), batch), batch)
        grant = world.open(cluster)
        assert len(grant.spare) == (world.tasks if has_spare else 0)
        assert not any(grant.run in one for one in grant.spare)
        opened: list[Any] = []

        def open_them(_: int) -> None:
            if fuse.seen[-1] == "InitProducerId" and not opened:
                opened.extend(world.written(cluster, grant, done))

        fuse.at_gate = open_them
        SinkDriver(ending, world.sink).abort([], grant)
        assert len(opened) == world.tasks
        assert world.still_open() == []
    assert world.committed() == world.expected(done)


def sends_behind_the_end(world: World) -> None:
    """The first rows of an attempt are sent when its write has ended."""
    fuse = Fuse()
    with world.cluster() as ending, world.cluster(fuse) as cluster:
        grant = world.open(cluster)
        begin = "Produce" if world.is_tv2 else "AddPartitionsToTxn"

        def end_the_write(_: int) -> None:
            if fuse.seen[-1] != begin:
                return
            if fuse.seen.count(begin) == 1:  # so that it is sent when all has been handed over
                raise ConnectionFailed("not this time")
            fuse.at_gate = None
            SinkDriver(ending, world.sink).abort([], grant)

        fuse.at_gate = end_the_write
        with pytest.raises(SinkFencedError, match="has failed, or another driver"):
            world.attempt(cluster, grant, 0, 0)
        assert fuse.at_gate is None and written_records(world) > 0
        assert world.still_open() == []
    assert world.committed() == []


def test_an_attempt_whose_first_rows_are_sent_behind_the_end_of_its_write(world: World):
    sends_behind_the_end(world)


def test_an_attempt_that_starts_behind_the_end_of_its_write_sends_nothing(world: World):
    with world.cluster() as cluster:
        grant = world.open(cluster)
        SinkDriver(cluster, world.sink).abort([], grant)
        with pytest.raises(SinkFencedError, match="has failed, or another driver"):
            world.attempt(cluster, grant, 0, 0)
    assert written_records(world) == 0


def test_the_transactions_of_a_newer_driver_are_left_alone(world: World):
    with world.cluster() as older, world.cluster() as newer:
        grant = world.open(older)
        world.new_process()
        results = world.written(newer, world.open(newer), 0)
        SinkDriver(older, world.sink).abort([], grant)
        assert len(world.still_open()) == world.tasks
        world.commit(newer, results, 0)
    assert world.committed() == world.expected()


def test_a_write_without_any_task_that_came_to_its_end(spark: Any, served: str, topic: str):
    """One task has sent rows when another one fails: Spark kills the first, and there are no
    results to abort by."""
    with Cluster(served) as cluster:
        Admin(cluster).create_topic(topic, 2)

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (task,) = [row for batch in batches for row in batch.column(0).to_pylist()]
        with Cluster(served) as own:

            def is_open() -> bool:
                listed = Admin(own).list_transactions(states=["Ongoing"])
                return any(one.transactional_id.startswith(f"w-{topic}-") for one in listed)

            if task == 0:
                eventually(is_open, "the other task has sent rows")
                raise ValueError("this task fails")
            yield pa.RecordBatch.from_pydict({"value": [bytes(100)] * 40_000})
            eventually(is_open, "rows are sent")
            eventually(lambda: not is_open(), "the driver has aborted the transaction")

    frame = spark.range(2, numPartitions=2).mapInArrow(rows, "value binary")
    with pytest.raises(Exception, match="this task fails"):
        writing(frame, served, topic, f"w-{topic}").save()
    with Cluster(served) as cluster:
        wait_for_markers(cluster, f"w-{topic}")
