"""librdkafka reads with `group.protocol=consumer` (KIP-848) from a whole node."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ...waiting import DEADLINE_S

pytestmark = [pytest.mark.slow, pytest.mark.clients]


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


def test_a_consumer_reads_commits_and_goes_on(node, topic):
    topic = topic.name
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
