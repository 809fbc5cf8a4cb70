"""The asyncio consumer on Apache Kafka, and in one group with aiokafka's and librdkafka's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fencepost.client.admin import Admin
from fencepost.client.aio import AsyncCluster, AsyncConsumer
from fencepost.client.cluster import Cluster
from fencepost.client.metadata import TopicPartition

from ..client import test_async_consumer as here
from ..waiting import DEADLINE_S
from .conftest import node_of_each_kind

pytestmark = [pytest.mark.interop, pytest.mark.clients]

STORIES = sorted(name for name in dir(here) if name.startswith("test_"))
QUICK = {"transaction.state.log.num.partitions": "4", "offsets.topic.num.partitions": "4"}


servers = node_of_each_kind(**QUICK)


@pytest.fixture
def parts(servers: str, topic: str) -> list[TopicPartition]:
    """The partitions of a new topic."""
    with Cluster(servers) as cluster:
        Admin(cluster).create_topic(topic, here.PARTITIONS)
        Admin(cluster).wait_for_topic(topic)
    return [TopicPartition(topic, number) for number in range(here.PARTITIONS)]


@pytest.mark.parametrize("name", STORIES)
def test_the_stories_told_of_our_broker(
    servers: str, parts: list[TopicPartition], topic: str, name: str
):
    getattr(here, name)(servers, parts, topic)


class Theirs:
    """A consumer of aiokafka in the same group, polled by a task."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        self.consumer: Any = AIOKafkaConsumer(
            topic,
            bootstrap_servers=servers,
            group_id=group,
            heartbeat_interval_ms=50,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[RangePartitionAssignor],
        )

    def numbers(self) -> set[int]:
        return {at.partition for at in self.consumer.assignment()}


def test_one_group_with_aiokafka(servers: str, parts: list[TopicPartition], topic: str):
    """The leader assigns: first ours, then theirs; each goes on where the other committed."""
    everything = set(range(here.PARTITIONS))

    async def story(world: here.World) -> None:
        here.produce(servers, parts, 0, 2)
        ours = await world.member()
        assert len(await here.read(ours, 8)) == 8
        await ours.commit()
        theirs = Theirs(servers, world.group, topic)
        # It joins as it starts, and ours joins again as it polls.
        starting = asyncio.create_task(theirs.consumer.start())
        try:
            await here.until(ours, starting.done)
            await starting
            await here.until(ours, lambda: len(ours.assignment()) == 2 == len(theirs.numbers()))
            mine = {at.partition for at in ours.assignment()}
            assert mine | theirs.numbers() == everything
            here.produce(servers, parts, 2, 3)
            found = await here.read(ours, 2)
            while len(found) < 4:
                found.append((await theirs.consumer.getone()).value)
            assert sorted(found) == here.numbers(2, 3)
            await theirs.consumer.commit()
            await ours.commit()
            await ours.stop()
            while theirs.numbers() != everything:  # noqa: ASYNC110 - the story has a deadline
                await asyncio.sleep(0.01)
            second = await world.member()
            await here.until(second, lambda: len(second.assignment()) == 2)
        finally:
            await theirs.consumer.stop()
        await here.until(second, lambda: len(second.assignment()) == here.PARTITIONS)
        assert [await second.committed(part) for part in parts] == [3] * here.PARTITIONS

    here.play(servers, topic, story)


@pytest.mark.parametrize("transactional", [False, True])
def test_records_of_others_are_read(
    servers: str, parts: list[TopicPartition], topic: str, transactional: bool
):
    """Compressed ones, with headers, and those of transactions that librdkafka ended."""
    confluent = pytest.importorskip("confluent_kafka")
    settings = {"bootstrap.servers": servers, "compression.type": "lz4"}
    if transactional:
        settings["transactional.id"] = topic
    producer = confluent.Producer(settings)
    if transactional:
        producer.init_transactions(DEADLINE_S)
        for value, ends in ((b"lost", producer.abort_transaction), (b"", None)):
            producer.begin_transaction()
            if ends is not None:
                producer.produce(topic, value, partition=0)
                producer.flush()
                ends(DEADLINE_S)
    for number in range(50):
        producer.produce(topic, b"%d" % number, partition=0, headers=[("n", b"%d" % number)])
    if transactional:
        producer.commit_transaction(DEADLINE_S)
    producer.flush()

    async def main() -> None:
        async with (
            asyncio.timeout(DEADLINE_S),
            AsyncCluster(servers, isolation_level="read_committed") as cluster,
            AsyncConsumer(cluster) as consumer,
        ):
            consumer.assign(parts[:1])
            await consumer.seek_to_beginning()
            for number in range(50):
                record = await consumer.getone()
                assert (record.value, record.headers) == (b"%d" % number, (("n", record.value),))

    asyncio.run(main())
