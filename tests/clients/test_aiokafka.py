"""aiokafka, the asyncio client."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from ..waiting import DEADLINE_S

pytestmark = [pytest.mark.clients]


async def produce(bootstrap: str, topic: str, count: int, **config) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **config)
    await producer.start()
    try:
        waits = [
            await producer.send(topic, f"m{number}".encode(), partition=0)
            for number in range(count)
        ]
        await asyncio.wait_for(asyncio.gather(*waits), DEADLINE_S)
    finally:
        await producer.stop()


async def read(consumer: AIOKafkaConsumer, count: int) -> list:
    return [await asyncio.wait_for(consumer.getone(), DEADLINE_S) for _ in range(count)]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize(("acks", "idempotent"), [(0, False), (1, False), ("all", True)])
def test_produce_and_consume(bootstrap, make_topic, codec, acks, idempotent):
    topic = make_topic()

    async def go() -> None:
        await produce(
            bootstrap, topic, 100, compression_type=codec, acks=acks, enable_idempotence=idempotent
        )
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=50
        )
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, 0)])
            got = await read(consumer, 100)
        finally:
            await consumer.stop()
        assert [record.value for record in got] == [f"m{n}".encode() for n in range(100)]

    asyncio.run(go())


def test_group_commit_resume_and_seek(bootstrap, make_topic):
    topic = make_topic()
    group = f"g-{uuid.uuid4().hex[:8]}"

    async def member() -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        return consumer

    async def go() -> None:
        await produce(bootstrap, topic, 30)
        first = await member()
        await read(first, 12)
        await first.commit({TopicPartition(topic, 0): 12})
        await first.stop()
        second = await member()
        try:
            assert [record.offset for record in await read(second, 18)] == list(range(12, 30))
            second.seek(TopicPartition(topic, 0), 5)
            assert (await read(second, 1))[0].offset == 5
        finally:
            await second.stop()

    asyncio.run(go())


def test_admin_sees_topics_and_groups(bootstrap, make_topic):
    topic = make_topic()

    async def go() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            assert topic in await admin.list_topics()
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 1
            await admin.delete_topics([topic])
            assert topic not in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(go())
