"""librdkafka's consumers of both protocols in one group, rolled up and down under load.

With its cooperative assignor a group is only rolled down: librdkafka stores data of its own in
assignments, and such a group cannot be upgraded, with Apache Kafka neither.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ...waiting import DEADLINE_S
from ..topic_requests import make_topic

pytestmark = [pytest.mark.slow, pytest.mark.clients]

PARTITIONS = 6
GROUP = "rolled"
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "100",
    "group.initial.rebalance.delay.ms": "100",
}


class Readers:
    """Consumers of one group, polled in turn, and what each partition's readers have seen."""

    def __init__(self, node: Any, topic: str) -> None:
        self._node = node
        self._topic = topic
        self.consumers: list[Any] = []
        self.owners: dict[int, int] = {}
        """Who reads a partition, from the callback that gives it to the one that takes it."""
        self.read: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}

    def start(self, protocol: str, strategy: str) -> Any:
        """One consumer more; it commits what it has read before it reads on."""
        from confluent_kafka import Consumer

        settings: dict[str, Any] = {
            "bootstrap.servers": self._node.bootstrap_servers,
            "group.id": GROUP,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        if protocol == "classic":
            settings["partition.assignment.strategy"] = strategy
            settings |= {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 200}
        consumer = Consumer(settings)
        consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._gone, on_lost=self._gone
        )
        self.consumers.append(consumer)
        return consumer

    def stop(self, consumer: Any) -> None:
        """It leaves the group."""
        consumer.close()
        self.consumers.remove(consumer)

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        for one in partitions:
            owner = self.owners.setdefault(one.partition, id(consumer))
            assert owner == id(consumer), f"partition {one.partition} has two readers"

    def _gone(self, consumer: Any, partitions: list[Any]) -> None:
        for one in partitions:
            assert self.owners.pop(one.partition) == id(consumer)

    def poll(self) -> None:
        """Each consumer reads one record, if there is one, and commits it."""
        for consumer in list(self.consumers):
            message = consumer.poll(0.02)
            if message is None or message.error() is not None:
                continue
            assert self.owners[message.partition()] == id(consumer)
            try:
                consumer.commit(message, asynchronous=False)
            except Exception as error:
                # The group has moved on: another reader begins behind the last commit.
                if not any(word in str(error) for word in ("generation", "rebalance", "member")):
                    raise
            self.read[message.partition()].append(message.offset())

    def poll_until_shared(self) -> None:
        """Until every partition has a reader, and every consumer reads."""
        deadline = time.monotonic() + DEADLINE_S
        while len(self.owners) < PARTITIONS or len(set(self.owners.values())) < len(self.consumers):
            assert time.monotonic() < deadline, f"{self.owners} of {len(self.consumers)}"
            self.poll()


@contextmanager
def produced(node: Any, topic: str) -> Iterator[dict[int, int]]:
    """Records arrive meanwhile; at the end, how many each partition has."""
    from confluent_kafka import Producer

    producer, counts = Producer({"bootstrap.servers": node.bootstrap_servers}), [0] * PARTITIONS
    found: dict[int, int] = {}
    is_over = threading.Event()

    def produce() -> None:
        number = 0
        while not is_over.wait(0.01):
            number += 1
            counts[number % PARTITIONS] += 1
            producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()
    assert producer.flush(DEADLINE_S) == 0
    found.update(enumerate(counts))


def group_type(node: Any) -> str:
    """As ListGroups says it."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    groups = admin.list_consumer_groups(request_timeout=DEADLINE_S).result()
    (found,) = [one.type.name for one in groups.valid if one.group_id == GROUP]
    return str(found).lower()


@pytest.mark.parametrize(
    ("strategy", "protocols"),
    [
        ("range", ("classic", "consumer", "classic")),
        ("cooperative-sticky", ("consumer", "classic")),
    ],
)
def test_a_group_is_rolled_up_and_down_under_load(
    node_factory: Any, strategy: str, protocols: tuple[str, ...]
) -> None:
    node = node_factory(**{key.replace(".", "_"): value for key, value in QUICK.items()})
    with node.connect() as client:
        topic = make_topic(client, partitions=PARTITIONS).name
    readers = Readers(node, topic)
    try:
        with produced(node, topic) as counts:
            for _ in range(3):
                readers.start(protocols[0], strategy)
            readers.poll_until_shared()
            for protocol in protocols[1:]:
                for consumer in list(readers.consumers):
                    readers.stop(consumer)
                    readers.start(protocol, strategy)
                    readers.poll_until_shared()
                assert group_type(node) == protocol
        deadline = time.monotonic() + DEADLINE_S
        while any(counts[index] > len(set(readers.read[index])) for index in counts):
            assert time.monotonic() < deadline, "records are missing"
            readers.poll()
    finally:
        for consumer in readers.consumers:
            consumer.close()
    for index, offsets in readers.read.items():
        assert set(offsets) == set(range(counts[index]))
        newest = -1
        for offset in offsets:  # again from the last commit at worst, never ahead of it
            assert offset <= newest + 1, f"partition {index}: {offset} behind {newest}"
            newest = max(newest, offset)
