"""Produce, ask for the end offset at once: with one replica it counts what was acknowledged."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Producer, TopicPartition as LibrdkafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaConsumer, KafkaProducer, TopicPartition as KafkaPythonPartition

from ..waiting import DEADLINE_S

pytestmark = [pytest.mark.clients]

TIMES = 200


@pytest.mark.parametrize("settings", [{}, {"acks": 1}, {"acks": "all"}])
def test_aiokafka(bootstrap, make_topic, settings):
    partition = TopicPartition(make_topic(), 0)

    async def go() -> list[int]:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **settings)
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await producer.start()
        await consumer.start()
        ends = []
        try:
            for _ in range(TIMES):
                await producer.send_and_wait(partition.topic, b"v", partition=0)
                ends.append((await consumer.end_offsets([partition]))[partition])
        finally:
            await consumer.stop()
            await producer.stop()
        return ends

    assert asyncio.run(go()) == list(range(1, TIMES + 1))


@pytest.mark.parametrize("settings", [{}, {"acks": 1, "enable_idempotence": False}])
def test_kafka_python(bootstrap, make_topic, settings):
    partition = KafkaPythonPartition(make_topic(), 0)
    producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    ends = []
    for _ in range(TIMES):
        producer.send(partition.topic, b"v", partition=0).get(timeout=DEADLINE_S)
        ends.append(consumer.end_offsets([partition])[partition])
    consumer.close()
    producer.close()
    assert ends == list(range(1, TIMES + 1))


@pytest.mark.parametrize("settings", [{}, {"acks": 1}])
def test_librdkafka(bootstrap, make_topic, settings):
    partition = LibrdkafkaPartition(make_topic(), 0)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **settings})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    ends = []
    for _ in range(TIMES):
        producer.produce(partition.topic, b"v", partition=0)
        assert producer.flush(DEADLINE_S) == 0
        asked = admin.list_offsets({partition: OffsetSpec.latest()})
        ends.append(asked[partition].result(DEADLINE_S).offset)
    assert ends == list(range(1, TIMES + 1))
