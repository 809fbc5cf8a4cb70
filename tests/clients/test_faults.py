"""Faults on demand, as other people's clients live through them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from fencepost.testing import Cluster, Proxy
from fencepost.testing.faults.injector import FaultInjector

from ..waiting import DEADLINE_S

pytestmark = [pytest.mark.clients, pytest.mark.slow]

CLIENTS = ["confluent", "kafka-python", "aiokafka"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One broker for the module."""
    with Cluster(offsets_topic_num_partitions=1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    """A proxy in front of it."""
    with Proxy(cluster.bootstrap_servers) as proxy:
        yield proxy


@pytest.fixture(params=["cluster", "proxy"])
def faults(request: pytest.FixtureRequest) -> Iterator[FaultInjector]:
    """Where faults are injected: at the cluster's own proxies, or at one in front of it."""
    chosen: FaultInjector = request.getfixturevalue(request.param)
    yield chosen
    chosen.clear()


@pytest.fixture
def made(cluster: Cluster, topic: str) -> str:
    """A topic that is there."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(DEADLINE_S)
    return topic


def write(client: str, servers: str, topic: str, *values: bytes) -> list[int]:
    """Produce one value after the other; their offsets."""
    if client == "confluent":
        return _write_with_confluent(servers, topic, values)
    if client == "kafka-python":
        producer = KafkaProducer(bootstrap_servers=servers, retry_backoff_ms=10)
        try:
            return [producer.send(topic, value).get(DEADLINE_S).offset for value in values]
        finally:
            producer.close()

    async def run() -> list[int]:
        producer = AIOKafkaProducer(bootstrap_servers=servers, retry_backoff_ms=10)
        await producer.start()
        try:
            return [(await producer.send_and_wait(topic, value)).offset for value in values]
        finally:
            await producer.stop()

    return asyncio.run(asyncio.wait_for(run(), DEADLINE_S))


def _write_with_confluent(servers: str, topic: str, values: tuple[bytes, ...]) -> list[int]:
    told: list[int] = []
    config = {"bootstrap.servers": servers, "retry.backoff.ms": 10, "retry.backoff.max.ms": 50}
    producer = Producer({**config, "log_level": 0})
    for value in values:

        def on_delivery(error: KafkaError | None, message) -> None:
            assert error is None, error
            told.append(message.offset())

        producer.produce(topic, value, on_delivery=on_delivery)
        assert producer.flush(DEADLINE_S) == 0
    return told


def read(client: str, servers: str, topic: str, count: int) -> list[bytes]:
    """So many values from the beginning."""
    if client == "confluent":
        config = {"bootstrap.servers": servers, "group.id": "unused", "log_level": 0}
        consumer = Consumer({**config, "retry.backoff.ms": 10, "fetch.error.backoff.ms": 10})
        consumer.assign([TopicPartition(topic, 0, 0)])
        try:
            found = []
            while len(found) < count:
                message = consumer.poll(DEADLINE_S)
                assert message is not None
                if message.error() is None:
                    found.append(message.value())
            return found
        finally:
            consumer.close()
    if client == "kafka-python":
        reader = KafkaConsumer(
            topic,
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            consumer_timeout_ms=int(DEADLINE_S * 1000),
        )
        try:
            return [message.value for _, message in zip(range(count), reader, strict=False)]
        finally:
            reader.close()

    async def run() -> list[bytes]:
        reader = AIOKafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest")
        await reader.start()
        try:
            return [(await reader.getone()).value for _ in range(count)]
        finally:
            await reader.stop()

    return asyncio.run(asyncio.wait_for(run(), DEADLINE_S))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_producer_tries_again_where_the_leader_has_moved(faults, made, client):
    fault = faults.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", count=2, topic=made)
    assert write(client, faults.bootstrap_servers, made, b"a", b"b") == [0, 1]
    assert fault.hits == 2


@pytest.mark.parametrize("client", CLIENTS)
def test_a_consumer_goes_on_after_failed_fetches(faults, made, client):
    write(client, faults.bootstrap_servers, made, b"a", b"b")
    fault = faults.fail_next("Fetch", "NOT_LEADER_OR_FOLLOWER", count=2, topic=made)
    assert read(client, faults.bootstrap_servers, made, 2) == [b"a", b"b"]
    assert fault.hits == 2


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_comes_back_when_it_is_disconnected(faults, made, client):
    """An answer that is lost after the broker has written has the producer write again."""
    fault = faults.disconnect_next("Produce", topic=made, after=True)
    offsets = write(client, faults.bootstrap_servers, made, b"a")
    assert fault.hits == 1
    assert offsets in ([0], [1]), "once or, without idempotence, twice"
    fault = faults.disconnect_next("Fetch")
    assert read(client, faults.bootstrap_servers, made, 1) == [b"a"]
    assert fault.hits == 1


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_waits_for_a_delayed_answer(faults, made, client):
    fault = faults.delay("Metadata", 50, count=2)
    late = faults.delay("Produce", 50, count=1, after=True)
    assert write(client, faults.bootstrap_servers, made, b"a") == [0]
    assert (fault.hits, late.hits) == (2, 1)


@pytest.mark.parametrize("client", CLIENTS)
def test_metadata_and_coordinators_that_fail_are_asked_for_again(faults, made, client):
    fault = faults.fail_next("Metadata", "LEADER_NOT_AVAILABLE", count=2, topic=made)
    assert write(client, faults.bootstrap_servers, made, b"a") == [0]
    assert fault.hits == 2


def test_a_consumer_group_survives_its_faults(cluster, made):
    """kafka-python, in a group, while coordinator and heartbeats fail."""
    write("kafka-python", cluster.bootstrap_servers, made, b"a", b"b")
    with (
        cluster.fail_next("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", count=2) as found,
        cluster.fail_next("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS") as joined,
        cluster.fail_next("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS") as fetched,
    ):
        reader = KafkaConsumer(
            made,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=made,
            auto_offset_reset="earliest",
            consumer_timeout_ms=int(DEADLINE_S * 1000),
            retry_backoff_ms=10,
        )
        try:
            assert [m.value for _, m in zip(range(2), reader, strict=False)] == [b"a", b"b"]
        finally:
            reader.close()
        assert (found.hits, joined.hits, fetched.hits) == (2, 1, 1)


def test_librdkafka_finds_that_the_log_was_truncated(cluster, made):
    """A consumer that has read what is taken back is told, and goes back to where logs agree."""
    servers = cluster.bootstrap_servers
    write("confluent", servers, made, b"a", b"b", b"c")
    config = {"bootstrap.servers": servers, "group.id": "unused", "log_level": 0}
    consumer = Consumer({**config, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(made, 0, 0)])
    try:
        before = [consumer.poll(DEADLINE_S).value() for _ in range(3)]
        assert before == [b"a", b"b", b"c"]
        done = cluster.truncate(made, 0, to=1)
        assert done.offset == 1
        write("confluent", servers, made, b"x", b"y", b"z")
        after = []
        while len(after) < 3:
            message = consumer.poll(DEADLINE_S)
            assert message is not None
            if message.error() is None:
                after.append(message.value())
        assert after == [b"x", b"y", b"z"]
    finally:
        consumer.close()
