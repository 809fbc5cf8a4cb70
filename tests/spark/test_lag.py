"""How far a query is behind, as a fake cluster tells it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fencepost.arrow.offsets import Position, StreamOffset
from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.records import Record, build_batch
from fencepost.client.cluster import Cluster
from fencepost.client.config import ClientConfig
from fencepost.client.errors import ClientError
from fencepost.client.metadata import TopicPartition
from fencepost.client.replicas import LogDirState, ReplicaInDir
from fencepost.spark import lag as lag_module
from fencepost.spark.lag import CLIENT_PROPERTIES, PartitionLag, measure_lag
from fencepost.wire.api.list_offsets import ListOffsetsPartitionResponse
from fencepost.wire.api.metadata import MetadataResponseTopic
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

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
    assert lags[T0].leader_epoch == 0
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


def test_the_first_moment_is_an_age(fake: FakeCluster, cluster: Cluster):
    fill(fake, 0, 0)
    assert measure_lag(cluster, at(0))[T0].oldest_unread_ms == 0


def test_the_age_is_that_of_the_first_unread_record_of_a_batch(fake: FakeCluster, cluster: Cluster):
    records = [Record(0, 1000 * number, 0, None, b"v") for number in (1, 2, 3)]
    fake.partition("t", 0).append(bytes(build_batch(records)))
    assert measure_lag(cluster, at(1))[T0].oldest_unread_ms == 2000


def test_markers_are_passed_over_to_the_oldest_record(fake: FakeCluster, cluster: Cluster):
    marker = build_end_txn_marker(
        committed=True, coordinator_epoch=0, producer_id=1, producer_epoch=0, timestamp_ms=1000
    )
    fake.partition("t", 0).batches.append(bytes(marker))
    # A fetch takes a batch.
    cluster.config = replace(cluster.config, max_partition_fetch_bytes=1)
    fill(fake, 0, 5000)
    assert measure_lag(cluster, at(0))[T0].oldest_unread_ms == 5000


def test_nothing_is_behind_where_a_log_ends_before_its_query():
    assert PartitionLag(T0, Position(5), onward=5, end_offset=3).records_behind == 0


def test_a_topic_that_the_broker_refuses(fake: FakeCluster, cluster: Cluster, monkeypatch: Any):
    refused = MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name="t")
    monkeypatch.setattr(fake, "_describe", lambda name: refused)
    assert measure_lag(cluster, at(0))[T0].condition == "TOPIC_AUTHORIZATION_FAILED"


def test_brokers_that_know_no_epochs_and_no_ids_of_topics(fake: FakeCluster, cluster: Cluster):
    fake.topics["t"].topic_id = Uuid.ZERO
    fake.partition("t", 0).epoch = -1
    for broker in fake.brokers.values():
        del broker.versions[23]
    lag = measure_lag(cluster, at(0, 3, "eR9EC-vcQvuTtDqqA4Q63A"))[T0]
    assert (lag.condition, lag.records_behind, lag.leader_epoch) == ("ok", 0, None)


def test_an_epoch_that_only_metadata_tells(
    fake: FakeCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    unknown = ListOffsetsPartitionResponse(partition_index=0, offset=0, leader_epoch=-1)
    monkeypatch.setattr(fake, "_list", lambda *asked: unknown)
    assert measure_lag(cluster, at(0))[T0].leader_epoch == 0


def test_a_fetch_that_fails_costs_the_age_only(fake: FakeCluster, cluster: Cluster):
    fill(fake, 0, 1000)
    for broker in fake.brokers.values():
        del broker.versions[1]
    lag = measure_lag(cluster, at(0))[T0]
    assert (lag.records_behind, lag.oldest_unread_ms) == (2, None)


class LogDirs:
    """Stands for Admin: logs of 1000 and 500 bytes, copies that are not complete yet, and what
    nobody asked for. Brokers in `silent` do not tell."""

    silent: frozenset[int] = frozenset()

    def __init__(self, cluster: Cluster) -> None:
        pass

    def describe_log_dirs(self, broker: int, wanted: list[TopicPartition]) -> list[LogDirState]:
        if broker in self.silent:
            raise ClientError("refused")
        sizes = {where: {T0: 1000, T1: 500}[where] for where in wanted}
        now = {where: ReplicaInDir(size, 0, False) for where, size in sizes.items()}
        future = {where: ReplicaInDir(1, 0, True) for where in wanted}
        other = {TopicPartition("u", 0): ReplicaInDir(7, 0, False)}
        return [
            LogDirState(path, 0, -1, -1, False, replicas)
            for path, replicas in (("/a", now | other), ("/b", future))
        ]


@pytest.mark.parametrize(("silent", "expected"), [((), (500, 500)), ((1,), (None, 500))])
def test_bytes_behind_are_a_share_of_the_leaders_log(
    fake: FakeCluster,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    silent: tuple[int, ...],
    expected: tuple[int | None, int],
):
    monkeypatch.setattr(lag_module, "Admin", LogDirs)
    monkeypatch.setattr(LogDirs, "silent", frozenset(silent))
    fill(fake, 0, 1000, 2000, 3000)
    fake.partition("t", 0).start_offset = 2
    fill(fake, 1, 1000)
    stored = StreamOffset({T0: Position(4), T1: Position(0)})
    lags = measure_lag(cluster, stored, with_bytes=True)
    assert (lags[T0].bytes_behind, lags[T1].bytes_behind) == expected
    assert measure_lag(cluster, stored)[T1].bytes_behind is None


def test_a_log_of_one_record_is_behind_as_a_whole(
    fake: FakeCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lag_module, "Admin", LogDirs)
    fake.partition("t", 0).append(batch(b"a"))
    assert measure_lag(cluster, at(0), with_bytes=True)[T0].bytes_behind == 1000
    assert measure_lag(cluster, at(1), with_bytes=True)[T0].bytes_behind == 0


def test_an_empty_log_has_no_bytes_behind(
    fake: FakeCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lag_module, "Admin", LogDirs)
    assert measure_lag(cluster, at(0), with_bytes=True)[T0].bytes_behind == 0


def test_bytes_are_unknown_where_brokers_do_not_tell(fake: FakeCluster, cluster: Cluster):
    fill(fake, 0, 1000)
    lag = measure_lag(cluster, at(0), with_bytes=True)[T0]
    assert (lag.records_behind, lag.bytes_behind) == (2, None)
