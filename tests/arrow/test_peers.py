"""Drawn records, produced and read by confluent-kafka: a scan of them says the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

import fencepost.arrow
from fencepost.client.admin import Admin
from fencepost.client.cluster import Cluster

from ..waiting import DEADLINE_S

confluent_kafka = pytest.importorskip("confluent_kafka")
pytestmark = pytest.mark.clients

PARTITIONS = 3
ANY_TIME = {"retention.ms": "-1"}
ALL = ["partition", "offset", "key", "value", "headers", "timestamp", "timestampType"]


def produce(served: str, topic: str, dice: random.Random, codec: str) -> None:
    """Some hundred records, a third of them in transactions, of which some are aborted."""
    settings = {"bootstrap.servers": served, "compression.type": codec, "linger.ms": 5}
    plain = confluent_kafka.Producer(settings)
    transactional = confluent_kafka.Producer({**settings, "transactional.id": topic})
    transactional.init_transactions(DEADLINE_S)
    for _ in range(12):
        if dice.random() < 0.4:
            transactional.begin_transaction()
            send(transactional, topic, dice)
            transactional.flush(DEADLINE_S)
            if dice.random() < 0.5:
                transactional.abort_transaction(DEADLINE_S)
            else:
                transactional.commit_transaction(DEADLINE_S)
        else:
            send(plain, topic, dice)
            assert plain.flush(DEADLINE_S) == 0


def send(producer: Any, topic: str, dice: random.Random) -> None:
    for _ in range(dice.randrange(1, 30)):
        headers = [
            (f"h{dice.randrange(3)}", dice.choice([None, b"", b"\xff\x00"]))
            for _ in range(dice.randrange(3))
        ]
        producer.produce(
            topic,
            key=dice.choice([None, b"", b"k", b"\xfe\xff"]),
            value=dice.choice([None, b"", dice.randbytes(dice.randrange(3000))]),
            partition=dice.randrange(PARTITIONS),
            headers=headers,
            timestamp=dice.randrange(1, 1_700_000_000_000),
        )


def consumed(served: str, topic: str, isolation: str) -> list[dict[str, Any]]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": served,
            "group.id": topic,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    beginnings = [confluent_kafka.TopicPartition(topic, p, 0) for p in range(PARTITIONS)]
    consumer.assign(beginnings)
    found: list[Any] = []
    ended: set[Any] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        if message.error():
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            ended.add(message.partition())
            continue
        kind, time_ms = message.timestamp()
        headers = [{"key": key, "value": value} for key, value in message.headers() or []]
        row = {
            "partition": message.partition(),
            "offset": message.offset(),
            "key": message.key(),
            "value": message.value(),
            "headers": headers or None,
            "timestamp": time_ms,
            "timestampType": kind - 1,
        }
        found.append(row)
    consumer.close()
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


@pytest.mark.parametrize("codec", ["none", "zstd", "lz4", "snappy", "gzip"])
def test_a_scan_has_what_a_consumer_gets(served: str, topic: str, codec: str):
    dice = random.Random(codec)
    with Cluster(served) as cluster:
        Admin(cluster).create_topic(topic, PARTITIONS, configs=ANY_TIME)
        Admin(cluster).wait_for_topic(topic)
    produce(served, topic, dice, codec)
    counts = []
    for isolation in ("read_committed", "read_uncommitted"):
        expected = consumed(served, topic, isolation)
        counts.append(len(expected))
        for threads in (1, 3):
            table = fencepost.arrow.read(
                served, topics=topic, columns=ALL, isolation=isolation, threads=threads
            )
            rows = table.to_pylist()
            for row in rows:
                row["timestamp"] = round(row["timestamp"].timestamp() * 1000)
            assert rows == expected
        with fencepost.arrow.stream(
            served, topics=topic, start="earliest", isolation=isolation, columns=["offset"]
        ) as stream:
            streamed = 0
            while streamed < len(expected):
                batch = stream.poll(DEADLINE_S * 1000)
                assert batch is not None
                streamed += batch.num_rows
            assert streamed == len(expected) and stream.poll(0) is None
    assert counts[0] < counts[1]  # the draw has aborted transactions
