"""librdkafka reads with `group.protocol=consumer` (KIP-848) from a whole node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.testing.ports import free_ports
from fencepost.wire.api import ConsumerGroupDescribeRequest

from ...waiting import DEADLINE_S
from ..conftest import RunningNode
from ..topic_requests import make_topic

pytestmark = [pytest.mark.slow, pytest.mark.clients]

# How often the coordinator has members send heartbeats: each step of an assignment waits for one.
QUICK = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    running = RunningNode(tmp_path_factory.mktemp("node") / "data", QUICK)
    yield running
    running.close()


def consumer_of(node: Any, group: str = "of-new-protocol", **settings: Any) -> Any:
    from confluent_kafka import Consumer

    return Consumer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **settings,
        }
    )


def produce(node: Any, topic: str, values: list[bytes]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": node.bootstrap_servers})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE_S) == 0


def poll_until(done: Callable[[], bool], *consumers: Any, read: list[bytes] | None = None) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline, "not in time"
        for consumer in consumers:
            message = consumer.poll(0.1)
            if message is not None:
                assert message.error() is None, message.error()
                if read is not None:
                    read.append(message.value())


def test_a_consumer_reads_commits_and_goes_on(node: Any, client: Any) -> None:
    topic = make_topic(client).name
    values = [str(number).encode() for number in range(100)]
    produce(node, topic, values)
    read: list[bytes] = []
    first = consumer_of(node)
    first.subscribe([topic])
    poll_until(lambda: len(read) == 100, first, read=read)
    assert sorted(read) == sorted(values)
    first.commit(asynchronous=False)
    first.close()
    produce(node, topic, [b"more"])
    second = consumer_of(node)
    second.subscribe([topic])
    read.clear()
    try:
        poll_until(lambda: bool(read), second, read=read)
        assert read == [b"more"]
    finally:
        second.close()


def assigned(consumer: Any) -> set[int]:
    return {partition.partition for partition in consumer.assignment()}


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_partitions_go_from_one_consumer_to_the_other_and_back(
    node: Any, client: Any, assignor: str
) -> None:
    topic = make_topic(client, partitions=4).name
    said = {"group": f"shared-{assignor}", "group.remote.assignor": assignor}
    first, second = consumer_of(node, **said), consumer_of(node, **said)
    first.subscribe([topic])
    poll_until(lambda: assigned(first) == {0, 1, 2, 3}, first)
    second.subscribe([topic])

    def is_shared() -> bool:
        other = assigned(second)  # before the first's: partitions only go from the first to it
        one = assigned(first)
        assert not one & other, "a partition is read by two"
        return len(one) == len(other) == 2

    poll_until(is_shared, first, second)
    second.close()
    poll_until(lambda: assigned(first) == {0, 1, 2, 3}, first)
    first.close()


def test_an_expression_finds_its_topics(node: Any, client: Any) -> None:
    topic = make_topic(client, partitions=2).name
    pattern = f"^{topic}.*"
    consumer = consumer_of(node, "by-regex")
    consumer.subscribe([pattern])
    try:
        poll_until(lambda: len(consumer.assignment()) == 2, consumer)
        (described,) = describe(node, "by-regex")
        assert described.members[0].subscribed_topic_regex == f"({pattern})"
    finally:
        consumer.close()


def test_a_static_consumer_comes_back_to_its_partitions(node: Any, client: Any) -> None:
    topic = make_topic(client, partitions=4).name
    said = {"group": "static"}
    other = consumer_of(node, **said)
    first = consumer_of(node, **said, **{"group.instance.id": "one"})
    for consumer in (first, other):
        consumer.subscribe([topic])
    poll_until(lambda: len(assigned(first)) == len(assigned(other)) == 2, first, other)
    had, epoch = assigned(first), describe(node, "static")[0].group_epoch
    first.close()
    again = consumer_of(node, **said, **{"group.instance.id": "one"})
    again.subscribe([topic])
    try:
        poll_until(lambda: assigned(again) == had, again, other)
        (described,) = describe(node, "static")
        assert described.group_epoch == epoch, "the target stays"
        assert {one.instance_id for one in described.members} == {"one", None}
    finally:
        again.close()
        other.close()


def test_a_coordinator_that_starts_again_goes_on_with_its_members(node_factory: Any) -> None:
    (port,) = free_ports(1)
    running = node_factory(listeners=f"PLAINTEXT://127.0.0.1:{port}", **QUICK)
    with running.connect() as client:
        topic = make_topic(client, partitions=2).name
    consumer = consumer_of(running, "restarted")
    consumer.subscribe([topic])
    read: list[bytes] = []
    try:
        produce(running, topic, [b"before"])
        poll_until(lambda: read == [b"before"], consumer, read=read)
        (before,) = describe(running, "restarted")
        running.restart()
        produce(running, topic, [b"after"])
        poll_until(lambda: b"after" in read, consumer, read=read)
        assert read.count(b"after") == 1
        (after,) = describe(running, "restarted")
        assert [one.member_id for one in after.members] == [one.member_id for one in before.members]
        assert after.group_epoch == before.group_epoch
    finally:
        consumer.close()


def describe(node: Any, group_id: str) -> list[Any]:
    with node.connect() as client:
        groups: list[Any] = client.ask(ConsumerGroupDescribeRequest(group_ids=[group_id]), 1).groups
        return groups
