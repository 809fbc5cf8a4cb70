"""How far a query is behind, as a fake cluster tells it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig
from fencepost.client.metadata import TopicPartition
from fencepost.spark.lag import CLIENT_PROPERTIES, measure_lag
from fencepost.spark.offsets import Position, StreamOffset

from ..client.fake_cluster import FakeCluster
from ..client.records import batch

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def cluster(fake: FakeCluster) -> Iterator[Cluster]:
    config = ClientConfig.from_props(
        {
            **CLIENT_PROPERTIES,
            "bootstrap.servers": fake.bootstrap_servers,
            "retry.backoff.ms": 1,
            "default.api.timeout.ms": 60_000,
        }
    )
    with Cluster(config=config) as opened:
        opened.unknown_topic_attempts = 2
        yield opened


def fill(fake: FakeCluster, partition: int, *timestamps_ms: int) -> None:
    for timestamp_ms in timestamps_ms:
        fake.partition("t", partition).append(batch(b"a", b"b", timestamp_ms=timestamp_ms))


def at(offset: int, epoch: int = -1, topic_id: str = "") -> StreamOffset:
    ids = {"t": topic_id} if topic_id else {}
    return StreamOffset({T0: Position(offset, epoch)}, ids)


def test_records_behind_and_the_age_of_the_oldest(fake: FakeCluster, cluster: Cluster):
    fill(fake, 0, 1000, 2000, 3000)
    fill(fake, 1, 5000)
    stored = StreamOffset({T0: Position(3), T1: Position(2)})
    lags = measure_lag(cluster, stored)
    assert (lags[T0].records_behind, lags[T0].oldest_unread_ms) == (3, 2000)
    assert (lags[T0].start_offset, lags[T0].end_offset, lags[T0].leader_epoch) == (0, 6, 0)
    assert (lags[T1].records_behind, lags[T1].oldest_unread_ms) == (0, None)
    assert {lag.condition for lag in lags.values()} == {"ok"}


def test_nothing_to_measure(cluster: Cluster):
    assert measure_lag(cluster, StreamOffset({})) == {}


def test_a_rewritten_log(fake: FakeCluster, cluster: Cluster):
    fill(fake, 0, 1000, 2000)
    fake.partition("t", 0).elect(2, cut_to=2)
    fill(fake, 0, 7000, 8000)
    lag = measure_lag(cluster, at(4, 0))[T0]
    assert (lag.condition, lag.onward, lag.records_behind) == ("rewritten", 2, 4)
    assert (lag.oldest_unread_ms, lag.leader_epoch) == (7000, 1)
    assert lag.loss is not None


def test_a_topic_made_anew(fake: FakeCluster, cluster: Cluster):
    fill(fake, 0, 1000)
    lag = measure_lag(cluster, at(2, 0, "eR9EC-vcQvuTtDqqA4Q63A"))[T0]
    assert (lag.condition, lag.records_behind) == ("recreated", 2)


def test_a_log_that_ends_before_the_offset_and_one_that_begins_after_it(
    fake: FakeCluster, cluster: Cluster
):
    fill(fake, 0, 1000)
    assert measure_lag(cluster, at(5))[T0].condition == "truncated"
    fake.partition("t", 0).start_offset = 2
    lag = measure_lag(cluster, at(1))[T0]
    assert (lag.condition, lag.onward) == ("aged out", 2)


def test_a_topic_and_a_partition_that_are_not_there(fake: FakeCluster, cluster: Cluster):
    gone = {TopicPartition("u", 0): Position(1), TopicPartition("t", 9): Position(1)}
    lags = measure_lag(cluster, StreamOffset(gone))
    assert {lag.condition for lag in lags.values()} == {"deleted"}
    assert {lag.records_behind for lag in lags.values()} == {None}


def test_a_partition_without_a_leader(fake: FakeCluster, cluster: Cluster):
    fill(fake, 1, 1000)
    fake.partition("t", 0).leader = -1
    lags = measure_lag(cluster, StreamOffset({T0: Position(1), T1: Position(0)}))
    assert (lags[T0].condition, lags[T0].records_behind) == ("no leader", None)
    assert (lags[T1].condition, lags[T1].records_behind) == ("ok", 2)


def test_records_without_a_timestamp_have_no_age(fake: FakeCluster, cluster: Cluster):
    fill(fake, 0, -1)
    lag = measure_lag(cluster, at(0))[T0]
    assert (lag.records_behind, lag.oldest_unread_ms) == (2, None)


def test_a_corrupt_batch_costs_the_age_only(fake: FakeCluster, cluster: Cluster):
    fill(fake, 0, 1000)
    log = fake.partition("t", 0).batches
    log[0] = log[0][:-1] + bytes([log[0][-1] ^ 1])
    lag = measure_lag(cluster, at(0))[T0]
    assert (lag.records_behind, lag.oldest_unread_ms) == (2, None)


def test_bytes_are_unknown_where_brokers_do_not_tell(fake: FakeCluster, cluster: Cluster):
    fill(fake, 0, 1000)
    lag = measure_lag(cluster, at(0), with_bytes=True)[T0]
    assert (lag.records_behind, lag.bytes_behind) == (2, None)
