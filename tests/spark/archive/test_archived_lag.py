"""How far a query is behind that reads from an archive what brokers have deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.arrow.arguments import archive_of
from fencepost.arrow.errors import ArchiveReadError
from fencepost.arrow.offsets import Position, StreamOffset
from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig
from fencepost.spark.lag import CLIENT_PROPERTIES, PartitionLag, measure_lag

from ...client.fake_cluster import FakeCluster
from .backfills import Backfill, P


@pytest.fixture
def cluster(fake: FakeCluster) -> Iterator[Cluster]:
    properties = {"bootstrap.servers": fake.bootstrap_servers, "default.api.timeout.ms": 60_000}
    with Cluster(config=ClientConfig.from_props({**CLIENT_PROPERTIES, **properties})) as opened:
        yield opened


@pytest.fixture
def world(fake: FakeCluster, tmp_path: Path) -> Backfill:
    """Thirty records in each of two partitions, the first twenty archived, the first ten deleted
    in the first."""
    del fake.topics["t"]
    made = Backfill(fake, tmp_path / "archive", 7)
    for number in (0, 1):
        made.produce(number, 20)
    made.archive_run()
    for number in (0, 1):
        made.produce(number, 10)
    made.logs[0].delete_before(10)
    return made


def lag_of(
    world: Backfill, cluster: Cluster, offset: int, *, with_archive: bool = True
) -> PartitionLag:
    stored = StreamOffset({one: Position(offset) for one in P[:2]}, {"t": world.topic_id})
    archive = archive_of(world.layout.directory, None) if with_archive else None
    lags = measure_lag(cluster, stored, with_bytes=True, archive=archive)
    assert lags[P[1]].condition == "ok"
    assert lags[P[1]].oldest_unread_ms is not None
    return lags[P[0]]


def test_what_the_archive_has_is_archived_and_no_loss(world: Backfill, cluster: Cluster):
    without = lag_of(world, cluster, 4, with_archive=False)
    assert (without.condition, without.records_behind) == ("aged out", 30 - 10)
    lag = lag_of(world, cluster, 4)
    assert (lag.condition, lag.loss, lag.onward) == ("archived", None, 4)
    assert lag.records_behind == 26
    first = next(row for row in world.records() if row["partition"] == 0 and row["offset"] >= 4)
    assert lag.oldest_unread_ms == first["timestamp"].timestamp() * 1000
    assert (lag.start_offset, lag.end_offset) == (10, 30)
    behind = lag_of(world, cluster, 12)
    assert (behind.condition, behind.records_behind) == ("ok", 18)


def test_what_neither_has_is_lost_to_the_offset(world: Backfill, cluster: Cluster):
    world.logs[0].delete_before(25)
    start = world.logs[0].start_offset
    lag = lag_of(world, cluster, 4)
    assert lag.loss is not None
    assert (lag.condition, lag.loss.start, lag.loss.end) == ("aged out", 20, start)
    assert lag.onward == 4  # it reads the archive first
    at_the_hole = lag_of(world, cluster, 21)
    assert at_the_hole.loss is not None
    assert (at_the_hole.condition, at_the_hole.onward) == ("aged out", start)


def test_an_archive_of_another_history_is_not_believed(
    world: Backfill, fake: FakeCluster, cluster: Cluster
):
    world.logs[0].elect(2, cut_to=15)
    cut = world.logs[0].end_offset
    world.produce(0, 15)
    world.logs[0].delete_before(cut + 6)
    start = world.logs[0].start_offset
    lag = lag_of(world, cluster, 4)
    assert lag.loss is not None
    assert (lag.loss.start, lag.loss.end) == (cut, start)
    del fake.topics["t"]
    fake.create_topic("t", 2)
    fake.partition("t", 0).start_offset = 9
    archive = archive_of(world.layout.directory, None)
    found = measure_lag(cluster, StreamOffset({P[0]: Position(4)}), archive=archive)[P[0]]
    assert found.condition == "aged out"  # the archive is of the topic before


def test_an_archive_that_is_gone_is_an_error(world: Backfill, cluster: Cluster):
    archive = archive_of(world.layout.directory, None)
    (world.layout.directory / "_fencepost/state.json").unlink()
    with pytest.raises(ArchiveReadError, match="no archive"):
        measure_lag(cluster, StreamOffset({P[0]: Position(4)}), archive=archive)
