"""`AsyncConsumer` against a broker: by hand, in groups with others, and where things go wrong."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any

import pytest

from fencepost.batch.errors import BatchError
from fencepost.batch.records import build_batch
from fencepost.client.admin import Admin
from fencepost.client.aio import (
    AsyncCluster,
    AsyncConsumer,
    AsyncProducer,
    ConsumerRebalanceListener,
)
from fencepost.client.cluster import Cluster
from fencepost.client.errors import (
    AbortableTransactionError,
    BrokerError,
    ClientError,
    ConfigError,
    OffsetOutOfRange,
    UnknownTopic,
)
from fencepost.client.fetch_core import Fetched
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.wire.api.heartbeat import HeartbeatRequest
from fencepost.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from fencepost.wire.errors import ErrorCode

from ..waiting import DEADLINE_S

PARTITIONS = 4


@pytest.fixture
def parts(served: str, topic: str) -> list[TopicPartition]:
    """The partitions of a new topic."""
    with Cluster(served) as cluster:
        Admin(cluster).create_topic(topic, PARTITIONS)
        Admin(cluster).wait_for_topic(topic)
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


def produce(served: str, parts: list[TopicPartition], first: int, last: int) -> None:
    """Records with these numbers in every partition."""
    with Cluster(served) as cluster, Producer(cluster) as producer:
        for topic, number in parts:
            for index in range(first, last):
                value = b"%d-%d" % (number, index)
                producer.send(topic, value, key=b"k", partition=number, timestamp_ms=1_000 + index)


class World:
    """Consumers of one group on one event loop, which leave in the end."""

    def __init__(self, served: str, topic: str, stack: contextlib.AsyncExitStack) -> None:
        self.served, self.topic = served, topic
        self.group = f"g-{uuid.uuid4().hex[:10]}"
        self._stack = stack

    async def cluster(self, **properties: Any) -> AsyncCluster:
        settings = {
            "group_id": self.group,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 50,
            "retry_backoff_ms": 1,
            "fetch_max_wait_ms": 50,
            **properties,
        }
        return await self._stack.enter_async_context(AsyncCluster(self.served, **settings))

    async def member(
        self, listener: ConsumerRebalanceListener | None = None, **properties: Any
    ) -> AsyncConsumer:
        cluster = await self.cluster(**properties)
        made = AsyncConsumer(cluster, [self.topic], listener)
        return await self._stack.enter_async_context(made)

    async def by_hand(self, *parts: TopicPartition, **properties: Any) -> AsyncConsumer:
        made = AsyncConsumer(await self.cluster(**properties))
        made.assign(parts)
        return await self._stack.enter_async_context(made)

    async def put_out(self, consumer: AsyncConsumer) -> None:
        """What a session timeout does."""
        member_id = consumer.consumer_group_metadata().member_id
        request = LeaveGroupRequest(
            group_id=self.group, members=[MemberIdentity(member_id=member_id)]
        )
        async with AsyncCluster(self.served) as other:
            await other.request_coordinator(
                self.group, request, lambda r: r.error_code, what="putting out"
            )


Story = Callable[[World], Awaitable[None]]


def play(served: str, topic: str, story: Story) -> None:
    """Run a story on an event loop of its own; it is stuck if it takes too long."""

    @contextlib.asynccontextmanager
    async def world() -> AsyncIterator[World]:
        async with contextlib.AsyncExitStack() as stack:
            yield World(served, topic, stack)

    async def main() -> None:
        async with asyncio.timeout(DEADLINE_S), world() as one:
            await story(one)

    asyncio.run(main())


def test_calls_that_are_cancelled_lose_no_record(
    served: str, parts: list[TopicPartition], topic: str
):
    produce(served, parts[:1], 0, 600)

    async def story(world: World) -> None:
        consumer = await world.by_hand(parts[0])
        offsets = [(await consumer.getone()).offset]
        cancelled = 0
        while len(offsets) < 600:
            call = asyncio.create_task(consumer.getone())
            await asyncio.sleep(0)
            if not call.done():
                cancelled += call.cancel()
            found = await asyncio.gather(call, return_exceptions=True)
            offsets += [one.offset for one in found if not isinstance(one, BaseException)]
        assert cancelled >= 2  # where the event loop got a turn
        assert offsets == list(range(600))

    play(served, topic, story)


async def read(consumer: AsyncConsumer, count: int) -> list[bytes]:
    """So many values, by `getmany`."""
    values: list[bytes] = []
    while len(values) < count:
        for records in (await consumer.getmany(timeout_ms=100)).values():
            values += [record.value or b"" for record in records]
    return values


async def eventually(condition: Callable[[], Any]) -> None:
    """While the application does other things than to read."""
    while not condition():  # noqa: ASYNC110 - the story as a whole has a deadline
        await asyncio.sleep(0.01)


async def until(consumer: AsyncConsumer, condition: Callable[[], Any]) -> None:
    while not condition():
        await consumer.getmany(timeout_ms=20)


def numbers(first: int, last: int, count: int = PARTITIONS) -> list[bytes]:
    return sorted(b"%d-%d" % (n, i) for n in range(count) for i in range(first, last))


def test_a_member_goes_on_where_the_group_has_committed(
    served: str, parts: list[TopicPartition], topic: str
):
    produce(served, parts, 0, 3)

    async def story(world: World) -> None:
        consumer = await world.member()
        assert sorted(await read(consumer, 12)) == numbers(0, 3)
        assert consumer.assignment() == frozenset(parts)
        assert consumer.subscription() == {topic}
        assert await consumer.committed(parts[0]) is None
        await consumer.commit()
        assert [await consumer.committed(part) for part in parts] == [3] * 4
        assert {at.last_epoch for at in consumer.positions.values()} == {0}
        await consumer.stop()
        with Cluster(served) as cluster:
            assert Admin(cluster).describe_group(world.group).members == ()  # it has left
        produce(served, parts, 3, 4)
        assert sorted(await read(await world.member(), 4)) == numbers(3, 4)

    play(served, topic, story)


def test_iteration_hands_out_one_by_one_and_commits_what_was_handed_out(
    served: str, parts: list[TopicPartition], topic: str
):
    produce(served, parts[:1], 0, 5)

    async def story(world: World) -> None:
        consumer = await world.member()
        seen = []
        async for record in consumer:
            seen.append(record)
            assert await consumer.position(parts[0]) == record.offset + 1
            if len(seen) == 3:
                await consumer.commit()
                break
        assert [record.offset for record in seen] == [0, 1, 2]
        first = seen[0]
        assert (first.topic, first.partition, first.timestamp) == (topic, 0, 1_000)
        assert (first.key, first.value, first.headers) == (b"k", b"0-0", ())
        assert await consumer.committed(parts[0]) == 3
        await consumer.stop()  # what was handed out after the commit is not committed
        second = await world.member()
        assert (await second.getone(parts[0])).offset == 3
        batches = await second.getmany(parts[1], parts[0], timeout_ms=1_000, max_records=5)
        assert [record.offset for record in batches[parts[0]]] == [4]

    play(served, topic, story)


def test_what_was_not_committed_is_read_again(served: str, parts: list[TopicPartition], topic: str):
    produce(served, parts[:1], 0, 5)

    async def story(world: World) -> None:
        consumer = await world.member()
        first = (await consumer.getmany(timeout_ms=5_000, max_records=2))[parts[0]]
        await consumer.seek_to_committed()
        assert await consumer.position(parts[0]) == 0, "nothing is committed: auto.offset.reset"
        assert (await consumer.getone(parts[0])).offset == first[0].offset == 0
        await consumer.commit()
        assert [record.offset for record in (await consumer.getmany(timeout_ms=5_000))[parts[0]]]
        await consumer.seek_to_committed(parts[0])
        assert (await consumer.getone(parts[0])).offset == 1
        with pytest.raises(ClientError, match="not assigned"):
            await consumer.seek_to_committed(TopicPartition("elsewhere", 0))
        alone = await world.by_hand(parts[0], group_id=None)
        with pytest.raises(ConfigError, match=r"group\.id"):
            await alone.seek_to_committed()

    play(served, topic, story)


def test_by_hand_without_a_group(served: str, parts: list[TopicPartition], topic: str):
    produce(served, parts, 0, 3)

    async def story(world: World) -> None:
        consumer = await world.by_hand(*parts[:2], group_id=None)
        assert sorted(await read(consumer, 6)) == numbers(0, 3, 2)
        consumer.seek(parts[1], 2)
        assert (await consumer.getone()).value == b"1-2"
        await consumer.seek_to_beginning()
        assert [await consumer.position(part) for part in parts[:2]] == [0, 0]
        await consumer.seek_to_end(parts[1])
        assert await consumer.position(parts[1]) == 3
        assert await consumer.beginning_offsets(parts[:1]) == {parts[0]: 0}
        assert await consumer.end_offsets(parts[:1]) == {parts[0]: 3}
        times = await consumer.offsets_for_times({parts[0]: 1_001, parts[1]: 9_999})
        assert times[parts[0]] is not None and times[parts[0]].offset == 1
        assert times[parts[1]] is None
        assert await consumer.partitions_for_topic(topic) == set(range(PARTITIONS))
        consumer.assign([parts[0], parts[2]])  # what stays is read on
        consumer.seek(parts[0], 1)
        consumer.assign([parts[0]])
        assert await read(consumer, 2) == [b"0-1", b"0-2"]
        assert {fetched.partition for fetched in await consumer.poll(0)} == set()
        for wrong in (parts[1], TopicPartition("elsewhere", 0)):
            with pytest.raises(ClientError, match="not assigned"):
                consumer.seek(wrong, 0)
            with pytest.raises(ClientError, match="not assigned"):
                consumer.pause(wrong)
            with pytest.raises(ClientError, match="not assigned"):
                await consumer.position(wrong)
        with pytest.raises(ClientError, match="cannot be read"):
            consumer.seek(parts[0], -1)
        with pytest.raises(ConfigError, match=r"group\.id"):
            await consumer.commit({parts[0]: 1})
        with pytest.raises(ConfigError, match=r"group\.id"):
            consumer.subscribe([topic])
        with pytest.raises(UnknownTopic):
            await consumer.partitions_for_topic("elsewhere")

    play(served, topic, story)


def test_by_hand_with_offsets_of_a_group(served: str, parts: list[TopicPartition], topic: str):
    produce(served, parts, 0, 2)

    async def story(world: World) -> None:
        consumer = await world.by_hand(parts[0])
        await consumer.commit({parts[0]: 1, parts[1]: 2})
        assert await read(consumer, 1) == [b"0-1"]
        with pytest.raises(ClientError, match="by hand"):
            consumer.subscribe([topic])
        await consumer.unsubscribe()
        assert consumer.assignment() == frozenset()
        with pytest.raises(ClientError, match="subscribe or assign"):
            await consumer.getmany()
        consumer.subscribe([topic])
        assert sorted(await read(consumer, 5)) == sorted([b"0-1", *numbers(0, 2)[4:]])
        with pytest.raises(ClientError, match="subscribed"):
            consumer.assign(parts)

    play(served, topic, story)


def test_what_is_paused_waits(served: str, parts: list[TopicPartition], topic: str):
    produce(served, parts[:2], 0, 3)

    async def story(world: World) -> None:
        consumer = await world.by_hand(*parts[:2])
        first = await consumer.getone()
        mine, other = (parts[first.partition], parts[1 - first.partition])
        consumer.pause(mine)
        assert consumer.paused() == {mine}
        found = await read(consumer, 3)
        assert {value[:1] for value in found} == {b"%d" % other.partition}
        assert await consumer.getmany(timeout_ms=60) == {}
        assert await consumer.poll(0) == []
        consumer.resume(mine)
        assert len(await read(consumer, 2)) == 2

    play(served, topic, story)


def test_so_many_records_are_handed_out_of_all_partitions_together(
    served: str, parts: list[TopicPartition], topic: str
):
    produce(served, parts[:2], 0, 3)

    async def story(world: World) -> None:
        consumer = await world.by_hand(*parts[:2])
        found = [(await consumer.getone()).value or b""]
        while len(found) < 6:
            more = await consumer.getmany(max_records=3, timeout_ms=1_000)
            assert 0 < sum(map(len, more.values())) <= 3
            found += [one.value or b"" for records in more.values() for one in records]
        assert sorted(found) == [b"%d-%d" % (at, index) for at in (0, 1) for index in range(3)]

    play(served, topic, story)


def test_batches_as_they_were_fetched(served: str, parts: list[TopicPartition], topic: str):
    produce(served, parts[:1], 0, 3)

    async def story(world: World) -> None:
        consumer = await world.by_hand(parts[0])
        consumer.seek(parts[0], 1)
        assert (await consumer.getone()).offset == 1  # the rest of its batch comes again
        (fetched,) = await consumer.poll()
        assert fetched.start_offset == 2
        assert [record.offset for record in fetched.read_records()] == [2]
        assert await consumer.position(parts[0]) == 3

    play(served, topic, story)


class Notes(ConsumerRebalanceListener):
    """Notes what it is told, and commits what it can."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []
        self.consumer: AsyncConsumer | None = None

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self.told.append(("revoked", len(revoked)))
        if self.consumer is not None:
            await self.consumer.commit()
            for call in (self.consumer.getmany, self.consumer.getone, self.consumer.unsubscribe):
                with pytest.raises(ClientError, match="rebalance listener"):
                    await call()

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.told.append(("assigned", len(assigned)))

    async def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self.told.append(("lost", len(lost)))


def test_members_share_and_a_listener_commits_in_time(
    served: str, parts: list[TopicPartition], topic: str
):
    produce(served, parts, 0, 2)

    async def story(world: World) -> None:
        notes = Notes()
        first = notes.consumer = await world.member(notes)
        assert len(await read(first, 8)) == 8
        second = await world.member()
        await asyncio.gather(
            until(first, lambda: len(first.assignment()) == 2),
            until(second, lambda: len(second.assignment()) == 2),
        )
        assert notes.told == [("assigned", 4), ("revoked", 4), ("assigned", 2)]
        assert first.assignment() | second.assignment() == frozenset(parts)
        assert await second.getmany(timeout_ms=100) == {}, "all was committed in time"
        notes.consumer = None
        await second.stop()
        await until(first, lambda: len(first.assignment()) == 4)
        produce(served, parts, 2, 3)
        assert sorted(await read(first, 4)) == numbers(2, 3)

    play(served, topic, story)


def test_a_listener_says_where_to_begin(served: str, parts: list[TopicPartition], topic: str):
    produce(served, parts, 0, 3)

    class Last(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
            for part in assigned:
                consumer.seek(part, 2)

    async def story(world: World) -> None:
        nonlocal consumer
        consumer = await world.member(Last())
        assert sorted(await read(consumer, 4)) == numbers(2, 3)

    consumer: AsyncConsumer
    play(served, topic, story)


def test_a_new_subscription_is_joined_with(served: str, parts: list[TopicPartition], topic: str):
    other = f"{topic}-b"
    with Cluster(served) as cluster:
        Admin(cluster).create_topic(other, 1)
        Admin(cluster).wait_for_topic(other)

    async def story(world: World) -> None:
        consumer = await world.member()
        await until(consumer, lambda: consumer.assignment() == frozenset(parts))
        consumer.subscribe([topic])  # nothing new
        assert not consumer.has_to_join
        consumer.subscribe([other])
        await until(consumer, lambda: consumer.assignment() == {TopicPartition(other, 0)})

    play(served, topic, story)


class Counting(AsyncCluster):
    """Counts heartbeats."""

    beats = 0

    async def _exchange(self, asked: Any) -> Any:
        self.beats += isinstance(asked.message, HeartbeatRequest)
        return await super()._exchange(asked)


def test_heartbeats_leave_while_the_application_works(
    served: str, parts: list[TopicPartition], topic: str
):
    async def story(world: World) -> None:
        settings = {"group_id": world.group, "heartbeat_interval_ms": 20}
        async with (
            Counting(served, **settings) as cluster,
            AsyncConsumer(cluster, [topic]) as consumer,
        ):
            await consumer.getmany()
            before = consumer.consumer_group_metadata()
            await eventually(lambda: cluster.beats >= 3)
            other = await world.member(heartbeat_interval_ms=20)
            joining = asyncio.create_task(other.getmany())
            await eventually(lambda: consumer.has_to_join)  # a heartbeat says so
            assert consumer.consumer_group_metadata() == before, "of the records at hand"
            await consumer.getmany()
            assert consumer.consumer_group_metadata().generation_id > before.generation_id
            await joining

    play(served, topic, story)


def test_who_reads_nothing_for_too_long_leaves_and_cannot_commit(
    served: str, parts: list[TopicPartition], topic: str
):
    """KIP-62; and what a transaction would commit then is refused, though the group is empty."""
    produce(served, parts, 0, 1)

    async def story(world: World) -> None:
        notes = Notes()
        consumer = await world.member(notes, max_poll_interval_ms=100, heartbeat_interval_ms=20)
        assert len(await read(consumer, 4)) == 4
        await eventually(lambda: consumer.has_to_join)
        with pytest.raises(BrokerError) as caught:
            await consumer.commit()
        assert caught.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
        cluster = await world.cluster(transactional_id=topic)
        async with AsyncProducer(cluster) as producer:
            with pytest.raises(AbortableTransactionError):
                async with producer.transaction():
                    await producer.send_offsets_to_transaction(
                        {parts[0]: 1}, consumer.consumer_group_metadata()
                    )
        assert len(await read(consumer, 4)) == 4, "it joins again and reads again"
        assert notes.told[1] == ("lost", 4)

    play(served, topic, story)


def test_a_member_that_was_put_out_reads_again(
    served: str, parts: list[TopicPartition], topic: str
):
    produce(served, parts, 0, 1)

    async def story(world: World) -> None:
        notes = Notes()
        consumer = await world.member(notes)
        assert len(await read(consumer, 4)) == 4
        await world.put_out(consumer)
        with pytest.raises(BrokerError) as caught:
            await consumer.commit()
        assert caught.value.code == ErrorCode.UNKNOWN_MEMBER_ID
        assert len(await read(consumer, 4)) == 4
        assert notes.told == [("assigned", 4), ("lost", 4), ("assigned", 4)]
        await consumer.commit()
        assert [await consumer.committed(part) for part in parts] == [1] * 4

    play(served, topic, story)


def test_what_failed_to_be_committed_is_committed_later(
    served: str, parts: list[TopicPartition], topic: str
):
    produce(served, parts, 0, 1)

    async def story(world: World) -> None:
        consumer = await world.member()
        assert len(await read(consumer, 4)) == 4
        committing = asyncio.create_task(consumer.commit())
        await asyncio.sleep(0)
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
        await consumer.commit()
        assert [await consumer.committed(part) for part in parts] == [1] * 4

    play(served, topic, story)


def test_cancelled_calls_lose_nothing(served: str, parts: list[TopicPartition], topic: str):
    """Also while the member joins, and while a fetch is on its way."""

    async def story(world: World) -> None:
        consumer = await world.member(fetch_max_wait_ms=1_000)
        found = []
        for turn in range(40):
            if turn == 20:
                produce(served, parts, 0, 5)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.001 * turn):
                    found.append((await consumer.getone()).value or b"")
        while len(found) < 20:
            found.append((await consumer.getone()).value or b"")
        assert sorted(found) == numbers(0, 5)

    play(served, topic, story)


def test_several_tasks_share_a_consumer(served: str, parts: list[TopicPartition], topic: str):
    produce(served, parts, 0, 25)

    async def story(world: World) -> None:
        consumer = await world.member()
        found: list[bytes] = []

        async def take() -> None:
            async for record in consumer:
                found.append(record.value or b"")
                if len(found) >= 100:
                    await consumer.stop()

        await asyncio.gather(*[take() for _ in range(3)])
        assert sorted(found) == numbers(0, 25), "iteration ends when it is stopped"

    play(served, topic, story)


def test_offsets_that_are_not_in_the_log(served: str, parts: list[TopicPartition], topic: str):
    produce(served, parts, 0, 2)

    async def story(world: World) -> None:
        consumer = await world.by_hand(parts[0])
        consumer.seek(parts[0], 99)
        assert await read(consumer, 2) == [b"0-0", b"0-1"]
        strict = await world.by_hand(parts[0], auto_offset_reset="none")
        with pytest.raises(BrokerError, match=r"auto\.offset\.reset=none"):
            await strict.getmany()
        strict.seek(parts[0], 99)
        with pytest.raises(OffsetOutOfRange):
            await strict.getmany(timeout_ms=DEADLINE_S * 1000)
        late = await world.by_hand(parts[0], auto_offset_reset="latest")
        assert await late.position(parts[0]) == 2

    play(served, topic, story)


def test_what_stands_before_a_corrupt_batch_is_handed_out(
    served: str, parts: list[TopicPartition], topic: str
):
    good = build_batch([(None, b"a"), (None, b"b")])
    bad = bytearray(build_batch([(None, b"c")], base_offset=2))
    bad[-1] ^= 1
    blob = memoryview(bytes(good) + bytes(bad))
    fetched = Fetched(parts[0], blob, 3, 0, 3, 3, 0)

    async def story(world: World) -> None:
        consumer = await world.by_hand(parts[0])

        def reading(*how: Any) -> Any:
            return [fetched._replace(start_offset=consumer.positions[parts[0]].offset)]
            yield  # a conversation without a step

        consumer.seek(parts[0], 0)
        consumer.reading = reading  # type: ignore[method-assign]
        found = await consumer.getmany()
        assert [record.value for record in found[parts[0]]] == [b"a", b"b"]
        for _ in range(2):
            with pytest.raises(BatchError, match="CRC"):
                await consumer.getmany()
        assert await consumer.position(parts[0]) == 2

    play(served, topic, story)


def test_consume_transform_produce(served: str, parts: list[TopicPartition], topic: str):
    """Offsets and records appear together, aborted ones are read again."""
    target = f"{topic}-out"
    with Cluster(served) as cluster:
        Admin(cluster).create_topic(target, 1)
        Admin(cluster).wait_for_topic(target)
    produce(served, parts, 0, 10)

    async def story(world: World) -> None:
        out = await world.by_hand(
            TopicPartition(target, 0), group_id=None, isolation_level="read_committed"
        )
        writing = await world.cluster(transactional_id=topic)
        done = turn = 0
        async with AsyncProducer(writing) as producer:
            while done < 40:
                consumer = await world.member(isolation_level="read_committed")
                batches: dict[Any, Any] = {}
                while not batches:
                    batches = await consumer.getmany(timeout_ms=100, max_records=3)
                turn += 1
                await producer.begin_transaction()
                for records in batches.values():
                    for record in records:
                        await producer.send(target, record.value, partition=0)
                offsets = {part: records[-1].offset + 1 for part, records in batches.items()}
                metadata = consumer.consumer_group_metadata()
                await producer.send_offsets_to_transaction(offsets, metadata)
                if turn % 3 == 0:
                    await producer.flush()
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
                    done += sum(map(len, batches.values()))
                await consumer.stop()
        assert sorted(await read(out, 40)) == numbers(0, 10)
        assert await out.getmany(timeout_ms=100) == {}

    play(served, topic, story)


def test_what_is_not_started_or_not_told_what_to_read_says_so(
    served: str, parts: list[TopicPartition], topic: str
):
    async def story(world: World) -> None:
        consumer = AsyncConsumer(await world.cluster())
        with pytest.raises(ClientError, match="not started"):
            await consumer.getmany()
        assert [record async for record in consumer] == []
        await consumer.stop()
        async with consumer:
            with pytest.raises(ClientError, match="subscribe or assign"):
                await consumer.getone()

    play(served, topic, story)
