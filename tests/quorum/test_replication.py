"""Partitions on three brokers, one process each: what is acknowledged survives its leader."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka import (
    KafkaConsumer,
    KafkaProducer,
    TopicPartition as KafkaTopicPartition,
)

from fencepost.client import producer as ours
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster
from fencepost.client.metadata import PartitionInfo
from fencepost.testing.quorum_cluster import QuorumCluster

from ..waiting import DEADLINE_S, eventually
from .conftest import QUICK

pytestmark = [pytest.mark.slow, pytest.mark.clients]

CONFIG = QUICK | {
    "broker.heartbeat.interval.ms": 300,
    "broker.session.timeout.ms": 3_000,
    "replica.fetch.backoff.ms": 100,
}
BEFORE, AFTER = 20, 20
VALUES = [b"%d" % number for number in range(BEFORE + AFTER)]


@pytest.fixture(scope="module")
def shared_brokers() -> Iterator[QuorumCluster]:
    """Three nodes, each broker and controller."""
    with QuorumCluster(3, 0, combined=True, config=CONFIG) as cluster:
        yield cluster


@pytest.fixture
def brokers(shared_brokers: QuorumCluster) -> QuorumCluster:
    """The three nodes, all of them running."""
    shared_brokers.start()
    return shared_brokers


def ours_writes(servers: str, topic: str, during: Callable[[], None]) -> None:
    with Cluster(servers) as client, ours.Producer(client) as producer:
        for place, value in enumerate(VALUES):
            if place == BEFORE:
                producer.flush()
                during()
            producer.send(topic, value, partition=0)
        producer.flush()


def confluent_writes(servers: str, topic: str, during: Callable[[], None]) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for place, value in enumerate(VALUES):
        if place == BEFORE:
            assert producer.flush(DEADLINE_S) == 0
            during()
        producer.produce(
            topic, value, partition=0, on_delivery=lambda error, _: error and errors.append(error)
        )
    assert producer.flush(DEADLINE_S) == 0
    assert errors == []


def confluent_reads(servers: str, topic: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[bytes] = []

    def poll() -> bool:
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            found.append(message.value())
        return len(found) >= len(VALUES)

    try:
        eventually(poll, "all values")
    finally:
        consumer.close()
    return found


def kafka_python_writes(servers: str, topic: str, during: Callable[[], None]) -> None:
    producer = KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True)
    sent = []
    for place, value in enumerate(VALUES):
        if place == BEFORE:
            producer.flush(DEADLINE_S)
            during()
        sent.append(producer.send(topic, value, partition=0))
    for one in sent:
        one.get(DEADLINE_S)
    producer.close()


def kafka_python_reads(servers: str, topic: str) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=servers, group_id=None)
    one = KafkaTopicPartition(topic, 0)
    consumer.assign([one])
    consumer.seek_to_beginning(one)
    found: list[bytes] = []

    def poll() -> bool:
        for messages in consumer.poll(100).values():
            found.extend(message.value for message in messages)
        return len(found) >= len(VALUES)

    try:
        eventually(poll, "all values")
    finally:
        consumer.close()
    return found


def look(servers: str, topic: str) -> PartitionInfo:
    with Cluster(servers) as client:
        return Admin(client).describe_topic(topic).partitions[0]


@pytest.mark.parametrize(
    ("writes", "reads"),
    [
        (ours_writes, confluent_reads),
        (confluent_writes, kafka_python_reads),
        (kafka_python_writes, confluent_reads),
    ],
)
def test_what_is_acknowledged_survives_the_leader_that_is_killed(
    brokers: QuorumCluster,
    writes: Callable[[str, str, Callable[[], None]], None],
    reads: Callable[[str, str], list[bytes]],
) -> None:
    topic = writes.__name__
    servers = brokers.bootstrap_servers
    with Cluster(servers) as client:
        Admin(client).create_topic(
            topic, assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": "2"}
        )
        before = Admin(client).wait_for_topic(topic).partitions[0]
    writes(servers, topic, brokers.nodes[before.leader_id].kill)
    assert reads(servers, topic) == VALUES
    after = look(servers, topic)
    assert after.leader_id not in (-1, before.leader_id)
    assert after.leader_epoch > before.leader_epoch

    brokers.start()
    eventually(lambda: set(look(servers, topic).isr) == {1, 2, 3}, "all in sync again")
    directories = [node.directory / "data" / f"{topic}-0" for node in brokers.nodes.values()]
    logs = {
        b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
        for directory in directories
    }
    assert len(logs) == 1, "the copies are one, byte for byte"
    assert all(value in next(iter(logs)) for value in VALUES)
