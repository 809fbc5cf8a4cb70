"""`AsyncAdmin` on a served broker: it answers as the blocking functions do, for it has the same
conversations."""

from __future__ import annotations

import asyncio
import inspect
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from fencepost.client import stable_offset
from fencepost.client.admin import SET, TOPIC_RESOURCE, Admin, ConfigChange
from fencepost.client.aio import AsyncAdmin, AsyncCluster, AsyncProducer
from fencepost.client.cluster import Cluster
from fencepost.client.errors import BrokerError, OffsetOutOfRange, UnknownTopic
from fencepost.client.lag import PartitionLag, lag_of_group
from fencepost.client.lineage import replica_lineages
from fencepost.client.metadata import CommittedOffset, TopicPartition
from fencepost.client.offsets import LATEST, EpochEnd, EpochSpan
from fencepost.client.stable_offset import Verdict
from fencepost.wire.errors import ErrorCode

T = TypeVar("T")


def with_admin(served: str, look: Callable[[AsyncAdmin], Awaitable[T]]) -> T:
    """What `look` returns, in an event loop of its own."""

    async def run() -> T:
        async with AsyncCluster(served) as cluster:
            return await look(AsyncAdmin(cluster))

    return asyncio.run(run())


@pytest.fixture
def part(served: str, topic: str) -> TopicPartition:
    """The first partition of a topic with three records of a producer and two partitions."""

    async def fill(admin: AsyncAdmin) -> None:
        created = await admin.create_topic(topic, 2)
        assert (created.name, created.partitions) == (topic, 2)
        assert set((await admin.wait_for_topic(topic)).partitions) == {0, 1}
        async with AsyncProducer(admin.cluster) as producer:
            for number in range(3):
                await producer.send(topic, b"%d" % number, partition=0)

    with_admin(served, fill)
    return TopicPartition(topic, 0)


def test_clients_of_another_event_loop_are_answered(served: str):
    """Transports of uvloop are no subclass of asyncio's."""
    uvloop = pytest.importorskip("uvloop")

    async def look() -> str:
        async with AsyncCluster(served) as cluster:
            return (await AsyncAdmin(cluster).describe_cluster()).cluster_id

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(look())


def test_every_method_of_the_blocking_admin_has_a_twin_with_the_same_arguments():
    public = {name for name in dir(Admin) if not name.startswith("_")}
    assert public and public <= set(dir(AsyncAdmin))
    for name in public:
        blocking, waiting = getattr(Admin, name), getattr(AsyncAdmin, name)
        assert inspect.signature(blocking) == inspect.signature(waiting), name
        assert blocking.__doc__ == waiting.__doc__, name
        assert inspect.iscoroutinefunction(waiting) and not inspect.iscoroutinefunction(blocking)


def test_topics_are_made_changed_and_deleted(served: str, part: TopicPartition):
    async def look(admin: AsyncAdmin) -> None:
        assert part.topic in [one.name for one in await admin.list_topics()]
        await admin.create_partitions(part.topic, 3)
        assert set((await admin.wait_for_topic(part.topic)).partitions) == {0, 1, 2}
        change = ConfigChange("retention.ms", "60000", SET)
        await admin.alter_configs(TOPIC_RESOURCE, part.topic, [change])
        (config,) = await admin.describe_configs(TOPIC_RESOURCE, part.topic, ["retention.ms"])
        assert (config.value, config.source) == ("60000", "topic")
        assert await admin.delete_records({part: 2}) == {part: 2}
        with pytest.raises(OffsetOutOfRange, match="the high watermark is 3, and 9 was asked for"):
            await admin.delete_records({part: 9})
        await admin.delete_topic(part.topic)
        with pytest.raises(UnknownTopic):
            await admin.delete_topic(part.topic)

    with_admin(served, look)


def test_lineages_and_offsets_are_those_that_the_blocking_client_reads(
    served: str, part: TopicPartition
):
    async def look(admin: AsyncAdmin) -> Any:
        epoch = (await admin.describe_topic(part.topic)).partitions[0].leader_epoch
        assert (await admin.list_offsets({part: LATEST}))[part].offset == 3
        ends = await admin.offsets_for_leader_epochs({part: epoch})
        assert ends[part] == EpochEnd(epoch, 3)
        spans = await admin.epoch_spans(part)
        assert spans == [EpochSpan(epoch, 0, 3)]
        (lineage,) = await admin.replica_lineages(part)
        assert list(lineage.spans) == spans
        assert (lineage.high_watermark, lineage.error) == (3, None)
        with pytest.raises(UnknownTopic):
            await admin.replica_lineages(TopicPartition(part.topic, 7))
        return [lineage]

    with Cluster(served) as cluster:
        assert with_admin(served, look) == replica_lineages(cluster, part)


def test_the_lag_of_a_group_is_told_of_what_it_committed_and_of_what_is_assigned(
    served: str, part: TopicPartition
):
    group = f"g-{uuid.uuid4().hex[:10]}"
    other, gone = TopicPartition(part.topic, 1), TopicPartition(f"{part.topic}-gone", 0)

    async def look(admin: AsyncAdmin) -> Any:
        await admin.create_topic(gone.topic, 1)
        await admin.wait_for_topic(gone.topic)
        committed = CommittedOffset(1, -1, "")
        await admin.alter_group_offsets(group, {part: committed, gone: CommittedOffset(0, -1, "")})
        assert group in [one.group_id for one in await admin.list_groups()]
        assert (await admin.describe_group(group)).state == "Empty"
        found = await admin.lag_of_group(group, [other])
        assert found[part] == PartitionLag(committed, 3) and found[part].lag_records == 2
        assert found[other] == PartitionLag(None, 0) and found[other].lag_records is None
        assert found[gone].lag_records == 0
        assert await admin.delete_group_offsets(group, [gone]) == {gone: 0}
        return await admin.lag_of_group(group)

    found = with_admin(served, look)
    assert set(found) == {part}
    with Cluster(served) as cluster:
        assert lag_of_group(Admin(cluster), group) == found


def test_what_holds_a_stable_offset_is_explained(served: str, part: TopicPartition):
    name = f"id-{uuid.uuid4().hex[:10]}"

    async def look(admin: AsyncAdmin) -> None:
        assert [one.verdict for one in await admin.explain_stable_offsets([part], 0)] == [
            Verdict.NOTHING
        ]
        async with (
            AsyncCluster(served, transactional_id=name) as writing,
            AsyncProducer(writing) as producer,
        ):
            await producer.begin_transaction()
            await (await producer.send(part.topic, b"held", partition=0))
            now_ms = int(time.time() * 1000) + 1  # long before the transaction times out
            (held,) = await admin.explain_stable_offsets([part], now_ms)
            assert (held.last_stable_offset, held.high_watermark) == (3, 4)
            (one,) = held.open
            assert (held.verdict, one.producer.start_offset) == (Verdict.ONGOING, 3)
            known = await admin.describe_transaction(name)
            assert one.known == known and known.partitions == (part,)
            with Cluster(served) as cluster:
                blocking = stable_offset.explain(Admin(cluster), [part], now_ms)
            assert blocking == [held]
            assert await admin.refused_by(known) == []
            await producer.abort_transaction()
        with pytest.raises(BrokerError) as refused:
            await admin.describe_transaction(f"{name}-unknown")
        assert refused.value.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    with_admin(served, look)


def test_questions_of_many_tasks_are_answered_over_the_same_connections(
    served: str, part: TopicPartition
):
    async def look(admin: AsyncAdmin) -> list[Any]:
        return await asyncio.gather(*(admin.replica_lineages(part) for _ in range(20)))

    found = with_admin(served, look)
    assert len(found) == 20 and all(one == found[0] for one in found)
