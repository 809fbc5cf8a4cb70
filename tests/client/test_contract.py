"""One suite for the fake cluster and for a served one: what the other tests rely on holds in both.

FENCEPOST_TEST_BOOTSTRAP runs it against any Kafka-compatible cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.batch.records import read_records
from fencepost.client.admin import Admin
from fencepost.client.batch_producer import BatchProducer
from fencepost.client.errors import BrokerError, OffsetOutOfRange, UnknownTopic
from fencepost.client.fetch_core import FetchPosition, RecreatedTopic
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import (
    EARLIEST,
    LATEST,
    epoch_spans,
    list_offsets,
    offsets_for_leader_epochs,
)
from fencepost.client.producer import Producer
from fencepost.wire.types import Uuid

from .fake_cluster import FakeCluster
from .records import batch


@pytest.fixture(params=["fake", "served"])
def servers(request: pytest.FixtureRequest, served: str) -> Iterator[str]:
    """Bootstrap servers of both kinds of cluster."""
    if request.param == "served":
        yield served
        return
    with FakeCluster(brokers=2) as fake:
        yield fake.bootstrap_servers


@pytest.fixture
def cluster(servers: str, connect: Any, topic: str) -> Any:
    """Connected, with `topic` of three partitions."""
    opened = connect(servers)
    admin = Admin(opened)
    admin.create_topic(topic, 3)
    admin.wait_for_topic(topic)
    return opened


def read(cluster: Any, where: TopicPartition, start: int, end: int) -> list[bytes | None]:
    return [
        record.value
        for fetched in Fetcher(cluster).read_range(where, start, end)
        for record in read_records(fetched.records, start_offset=start)
        if record.offset < end
    ]


def test_what_is_produced_is_fetched(cluster: Any, topic: str):
    with Producer(cluster) as producer:
        sent = [producer.send(topic, b"%d" % n, partition=1, timestamp_ms=n) for n in range(100)]
    assert [delivery.result() for delivery in sent] == list(range(100))
    where = TopicPartition(topic, 1)
    assert read(cluster, where, 0, 100) == [b"%d" % n for n in range(100)]
    assert read(cluster, where, 40, 42) == [b"40", b"41"]


def test_offsets_and_epochs_without_a_leader_change(cluster: Any, topic: str):
    where = TopicPartition(topic, 0)
    with BatchProducer(cluster) as producer:
        producer.send_batch(topic, 0, batch(b"a", b"b", timestamp_ms=5000))
        producer.send_batch(topic, 0, batch(b"c", timestamp_ms=7000))
    latest = list_offsets(cluster, {where: LATEST})[where]
    assert (latest.offset, latest.leader_epoch) == (3, 0)
    assert list_offsets(cluster, {where: EARLIEST})[where].offset == 0
    assert list_offsets(cluster, {where: 6000})[where].offset == 2
    assert list_offsets(cluster, {where: 8000})[where].offset == -1
    assert offsets_for_leader_epochs(cluster, {where: 0})[where] == (0, 3)
    assert offsets_for_leader_epochs(cluster, {where: 9})[where] == (-1, -1)
    assert epoch_spans(cluster, where) == [(0, 0, 3)]


def test_a_batch_that_comes_twice_is_stored_once(cluster: Any, topic: str):
    stamps = {"producer_id": 4711, "producer_epoch": 0, "base_sequence": 0}
    for _ in range(2):
        plain = BatchProducer(_without_idempotence(cluster))
        delivery = plain.send_batch(topic, 0, batch(b"a", b"b", **stamps))
        plain.flush()
        assert delivery.result() == 0
    assert list_offsets(cluster, {TopicPartition(topic, 0): LATEST})[(topic, 0)].offset == 2


def _without_idempotence(cluster: Any) -> Any:
    """A cluster whose producers send batches as they are."""
    from dataclasses import replace

    from fencepost.client.cluster import Cluster

    return Cluster(config=replace(cluster.config, enable_idempotence=False))


def test_a_gap_in_a_sequence_is_refused(cluster: Any, topic: str):
    for sequence, error in ((0, None), (5, "OUT_OF_ORDER_SEQUENCE")):
        stamps = {"producer_id": 4712, "producer_epoch": 0, "base_sequence": sequence}
        plain = BatchProducer(_without_idempotence(cluster))
        plain.send_batch(topic, 0, batch(b"a", **stamps))
        if error is None:
            plain.flush()
        else:
            with pytest.raises(BrokerError if error == "" else Exception, match=error):
                plain.flush()


def test_unreachable_offsets(cluster: Any, topic: str):
    with pytest.raises(OffsetOutOfRange, match=f"{topic}-2"):
        Fetcher(cluster).fetch({TopicPartition(topic, 2): FetchPosition(7)})


def test_an_empty_partition_has_nothing(cluster: Any, topic: str):
    (found,) = Fetcher(cluster).fetch({TopicPartition(topic, 2): FetchPosition(0)}, max_wait_ms=10)
    assert (found.next_offset, len(found.records), found.high_watermark) == (0, 0, 0)


def test_divergence_is_reported_with_its_epoch_and_end_offset(cluster: Any, topic: str):
    with BatchProducer(cluster) as producer:
        producer.send_batch(topic, 0, batch(b"a", b"b"))
    where = TopicPartition(topic, 0)
    (same,) = Fetcher(cluster).fetch({where: FetchPosition(1, last_epoch=0)})
    assert same.diverging is None and same.next_offset == 2


def test_a_recreated_topic_has_another_id(cluster: Any, topic: str):
    admin = Admin(cluster)
    old = admin.describe_topic(topic).topic_id
    assert old != Uuid.ZERO
    admin.delete_topic(topic)
    admin.create_topic(topic, 3)
    new = admin.wait_for_topic(topic).topic_id
    assert new != old
    with pytest.raises(RecreatedTopic):
        Fetcher(cluster, topic_ids={topic: old}).fetch({TopicPartition(topic, 0): FetchPosition(0)})


def test_missing_topics_are_unknown_topic_errors(cluster: Any, topic: str):
    admin = Admin(cluster)
    with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topic(topic)
    with pytest.raises(UnknownTopic):
        admin.delete_topic(topic + "-not")
    assert topic in {info.name for info in admin.list_topics()}
