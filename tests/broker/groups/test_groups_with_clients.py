"""A real consumer's group: join, commit, leave, resume, and two that share the partitions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from ...waiting import DEADLINE_S
from ..conftest import RunningNode

pytestmark = [pytest.mark.slow, pytest.mark.clients]


@pytest.fixture
def topic(node: RunningNode) -> str:
    """A topic of four partitions with ten records in each."""
    name = f"topic-{time.monotonic_ns()}"
    admin = KafkaAdminClient(bootstrap_servers=node.bootstrap_servers)
    admin.create_topics([NewTopic(name, num_partitions=4, replication_factor=1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=node.bootstrap_servers)
    sent = [
        producer.send(name, b"%d/%d" % (partition, number), partition=partition)
        for partition in range(4)
        for number in range(10)
    ]
    for future in sent:
        future.get(DEADLINE_S)
    producer.close()
    return name


def consumer(node: RunningNode, topic: str, group: str, **settings: Any) -> KafkaConsumer:
    made = KafkaConsumer(
        topic,
        bootstrap_servers=node.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=200,
        session_timeout_ms=30_000,
        **settings,
    )
    # One that hands out partitions before it knows them hands out none, and with kafka-python
    # 3.0.12 that can be its last word (see tests/clients/test_kafka_python.py).
    made.partitions_for_topic(topic)
    return made


def poll_until(consumers: list[KafkaConsumer], done: Callable[[list[bytes]], bool]) -> list[bytes]:
    """Poll all in turn until `done(values so far)`."""
    values: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while not done(values):
        assert time.monotonic() < deadline, f"after {len(values)} records"
        for one in consumers:
            for records in one.poll(50).values():
                values += [record.value for record in records]
    return values


def test_join_commit_leave_resume(node: RunningNode, topic: str) -> None:
    first = consumer(node, topic, "resuming", max_poll_records=7)
    values = poll_until([first], lambda seen: len(seen) >= 20)
    first.commit()
    first.close()
    second = consumer(node, topic, "resuming")
    rest = poll_until([second], lambda seen: len(values) + len(seen) >= 40)
    second.commit()
    committed = [second.committed(TopicPartition(topic, p)) for p in range(4)]
    second.close()
    assert len(set(values + rest)) == len(values + rest) == 40
    assert committed == [10, 10, 10, 10]


def test_two_share_the_partitions_and_one_takes_over(node: RunningNode, topic: str) -> None:
    one, two = consumer(node, topic, "sharing"), consumer(node, topic, "sharing")
    poll_until([one, two], lambda _: len(one.assignment()) == len(two.assignment()) == 2)
    assert one.assignment() | two.assignment() == {TopicPartition(topic, p) for p in range(4)}
    two.close()
    poll_until([one], lambda _: len(one.assignment()) == 4)
    one.close()


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(
    node: RunningNode, topic: str
) -> None:
    settings = {"group_instance_id": "me"}
    other = consumer(node, topic, "static")
    first = consumer(node, topic, "static", **settings)
    poll_until([other, first], lambda _: len(first.assignment()) == len(other.assignment()) == 2)
    mine = first.assignment()
    group = node.node.broker.coordinators.groups.coordinator_of("static").machine.groups["static"]
    generation = group.generation
    first._coordinator.close(autocommit=False)  # gone without a word: static members do not leave
    first._client.close()
    again = consumer(node, topic, "static", **settings)
    poll_until([other, again], lambda _: len(again.assignment()) == 2)
    assert again.assignment() == mine
    assert group.generation == generation
    again.close()
    other.close()
