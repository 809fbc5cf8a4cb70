"""Transactional producers, blocking and asyncio, on a served broker; `tests/interop` has more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from fencepost.client.admin import Admin
from fencepost.client.aio import AsyncCluster, AsyncProducer
from fencepost.client.cluster import Cluster
from fencepost.client.errors import (
    AbortableTransactionError,
    ClientError,
    DeadlineExceeded,
    ProducerFenced,
)
from fencepost.client.fetcher import Fetcher
from fencepost.client.metadata import TopicPartition
from fencepost.client.producer import Producer
from fencepost.client.protocol.transaction_requests import ConsumerGroupMetadata
from fencepost.client.retry import Deadline

from ..ended_transactions import stable_ends

pytestmark = pytest.mark.usefixtures("served")  # before the first test, which counts processes
MESSAGE_MAX_BYTES = 1 << 20
"""More than a batch may have by `message.max.bytes`, with what it says of itself."""
Connect = Callable[..., Cluster]


@pytest.fixture
def part(served: str, connect: Connect, topic: str) -> TopicPartition:
    admin = Admin(connect(served))
    admin.create_topic(topic, 1)
    admin.wait_for_topic(topic)
    return TopicPartition(topic, 0)


def committed(connect: Connect, served: str, part: TopicPartition) -> list[bytes]:
    cluster = connect(served, isolation_level="read_committed")
    end = stable_ends(cluster, [part])[part]
    return [
        record.value or b""
        for fetched in Fetcher(cluster).read_range(part, 0, end)
        for record in fetched.read_records(end)
    ]


def test_the_blocking_producer(served: str, connect: Connect, part: TopicPartition):
    producer = Producer(
        connect(served, transactional_id=part.topic, max_request_size=2 * MESSAGE_MAX_BYTES)
    )
    with pytest.raises(ClientError, match="call init_transactions first"):
        producer.begin_transaction()
    producer.init_transactions()
    with pytest.raises(ClientError, match="call begin_transaction first"):
        producer.send(part.topic, b"outside")
    with producer.transaction():
        producer.send(part.topic, b"a")
        producer.send_offsets_to_transaction({part: 1}, f"g-{part.topic}")
    with contextlib.suppress(ZeroDivisionError), producer.transaction():
        producer.send(part.topic, b"b")
        producer.flush()
        lost = producer.send(part.topic, b"c")
        raise ZeroDivisionError
    with pytest.raises(ClientError, match="aborted"):
        lost.result()
    producer.begin_transaction()
    too_large = producer.send(part.topic, bytes(MESSAGE_MAX_BYTES))
    producer.abort_transaction()
    with pytest.raises(ClientError):
        too_large.result()
    producer.flush()  # has nothing to say of what the abort gave up
    producer.begin_transaction()
    with pytest.raises(AbortableTransactionError):
        producer.send_offsets_to_transaction({part: 2}, ConsumerGroupMetadata("g", 5, "nobody"))
    with pytest.raises(AbortableTransactionError):
        producer.commit_transaction()
    producer.abort_transaction()
    with pytest.raises(ClientError, match="cannot be committed"), producer.transaction():
        producer.send_offsets_to_transaction({part: -1}, "g")
    second = Producer(connect(served, transactional_id=part.topic))
    second.init_transactions()
    with pytest.raises((ProducerFenced, AbortableTransactionError)), producer.transaction():
        producer.send(part.topic, b"late")
    with second.transaction():
        second.send(part.topic, b"d")
    assert committed(connect, served, part) == [b"a", b"d"]
    offsets = Admin(connect(served)).group_offsets(f"g-{part.topic}", [part], require_stable=True)
    assert offsets[part].offset == 1


def test_offsets_of_a_topic_that_is_not_there_can_be_given_up(
    served: str, connect: Connect, part: TopicPartition, monkeypatch: pytest.MonkeyPatch
):
    producer = Producer(connect(served, transactional_id=part.topic))
    producer.init_transactions()
    nowhere = TopicPartition(f"{part.topic}-nowhere", 0)
    producer.begin_transaction()
    producer.send(part.topic, b"a")
    for call in (
        lambda: producer.send_offsets_to_transaction({nowhere: 1}, "g"),
        producer.commit_transaction,
    ):
        said = f"{nowhere.topic}-0: TxnOffsetCommit was refused.*UNKNOWN_TOPIC_OR_PARTITION"
        with monkeypatch.context() as impatient:
            impatient.setattr(producer.cluster, "deadline", lambda: Deadline(300))
            with pytest.raises(DeadlineExceeded, match=said):
                call()
    producer.abort_transaction()
    with producer.transaction():
        producer.send(part.topic, b"c")
        with pytest.raises(TypeError, match="this is a list"):
            producer.send_offsets_to_transaction([part], "g")  # type: ignore[arg-type]
    assert committed(connect, served, part) == [b"c"]


def test_the_asyncio_producer(served: str, connect: Connect, part: TopicPartition):
    async def main() -> None:
        async with (
            AsyncCluster(served, transactional_id=part.topic) as cluster,
            AsyncProducer(cluster) as producer,
        ):
            async with producer.transaction():
                future = await producer.send(part.topic, b"a")
                await producer.send_offsets_to_transaction({part: 1}, f"g-{part.topic}")
            assert future.result() == 0
            with contextlib.suppress(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send(part.topic, b"b")
                    await producer.flush()
                    raise ZeroDivisionError

            # Cancelled in the middle: what was begun is aborted, and the producer goes on.
            async def cancelled() -> None:
                async with producer.transaction():
                    await producer.send(part.topic, b"c")
                    await asyncio.Event().wait()

            task = asyncio.create_task(cancelled())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with producer.transaction():
                await producer.send(part.topic, b"d")

    asyncio.run(main())
    assert committed(connect, served, part) == [b"a", b"d"]
