"""The asyncio producer under faults: what `test_producer` asks of the blocking one."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fencepost.client.aio import AsyncCluster, AsyncProducer
from fencepost.client.aio.connection import AsyncConnection
from fencepost.client.config import ClientConfig
from fencepost.client.errors import (
    ClientError,
    ConnectionFailed,
    DeliveryFailed,
    ProtocolError,
    RequestTimedOut,
    UnknownTopic,
)
from fencepost.wire.api.metadata import MetadataRequest
from fencepost.wire.errors import ErrorCode

from .fake_broker import FakeBroker, framed
from .fake_cluster import DROP, DROP_AFTER, FakeCluster
from .test_producer import logged

Body = Callable[[AsyncProducer], Coroutine[Any, Any, Any]]


def with_producer(fake: FakeCluster, body: Body, **properties: Any) -> Any:
    """Run `body` with a producer that has short back-offs."""
    settings = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 20, **properties}

    async def main() -> Any:
        async with (
            AsyncCluster(fake.bootstrap_servers, **settings) as cluster,
            AsyncProducer(cluster) as producer,
        ):
            return await body(producer)

    return asyncio.run(main())


def test_records_arrive_once_and_in_order(fake: FakeCluster):
    fake.create_topic("t")

    async def body(producer: AsyncProducer) -> list[int]:
        futures = [await producer.send("t", b"%d" % n) for n in range(500)]
        return list(await asyncio.gather(*futures))

    assert with_producer(fake, body, batch_size=200) == list(range(500))
    assert logged(fake) == [b"%d" % n for n in range(500)]


@pytest.mark.parametrize("seed", range(6))
def test_no_fault_loses_doubles_or_reorders_anything(seed: int):
    rng = random.Random(seed)
    with FakeCluster(brokers=3) as fake:
        fake.create_topic("t", 3)
        left = [40]

        def fault(broker: int, topic: str, partition: int, header: Any) -> Any:
            if left[0] == 0 or rng.random() > 0.3:
                return None
            left[0] -= 1
            kind = rng.randrange(5)
            if kind == 0:
                fake.partition(topic, partition).elect(rng.randrange(1, 4))
                return None
            return (ErrorCode.NOT_ENOUGH_REPLICAS, DROP, DROP_AFTER, ErrorCode.REQUEST_TIMED_OUT)[
                kind - 1
            ]

        async def body(producer: AsyncProducer) -> list[int]:
            futures = [await producer.send("t", b"%d" % n, partition=n % 3) for n in range(300)]
            return list(await asyncio.gather(*futures))

        fake.fault = fault
        offsets = with_producer(fake, body, batch_size=150)
        assert left[0] < 40
        for partition in range(3):
            expected = [b"%d" % n for n in range(partition, 300, 3)]
            assert logged(fake, "t", partition) == expected, f"seed {seed}"
        assert offsets == [n // 3 for n in range(300)]


def test_failures_are_told_to_the_record_and_once_by_flush(fake: FakeCluster):
    fake.create_topic("t")
    refused = [1]
    fake.fault = lambda *_: ErrorCode.MESSAGE_TOO_LARGE if refused and refused.pop() else None

    async def body(producer: AsyncProducer) -> None:
        future = await producer.send("t", b"a")
        with pytest.raises(DeliveryFailed, match="MESSAGE_TOO_LARGE"):
            await future
        with pytest.raises(DeliveryFailed, match="MESSAGE_TOO_LARGE"):
            await producer.flush()
        assert await producer.send_and_wait("t", b"b", key=b"k") == 0
        with pytest.raises(UnknownTopic):
            await producer.send("t", b"c", partition=7)
        with pytest.raises(ClientError, match=r"transactions need transactional\.id"):
            await producer.begin_transaction()

    with_producer(fake, body)
    assert logged(fake) == [b"b"]


def test_a_full_buffer_makes_send_wait(fake: FakeCluster):
    fake.create_topic("t")

    async def body(producer: AsyncProducer) -> int:
        most = 0
        for _ in range(50):
            await producer.send("t", b"x" * 1000)
            most = max(most, producer._core.queued_bytes)
        await producer.flush()
        assert producer._core.queued_bytes == 0
        return most

    assert with_producer(fake, body, buffer_memory=3000, batch_size=1000) <= 3000
    assert len(logged(fake)) == 50


def test_the_sender_does_not_wait_for_room_that_it_makes_itself(fake: FakeCluster):
    """Batches that have lingered meet a full buffer, with nothing on its way."""
    fake.create_topic("t", 4)

    async def body(producer: AsyncProducer) -> None:
        async with asyncio.timeout(20):
            for n in range(40):
                await producer.send("t", b"x" * 400, partition=n % 4)
                if n == 8:  # one batch queued, the rest open
                    time.sleep(0.002)  # noqa: ASYNC251 - without a turn for the sender
            await producer.flush()

    with_producer(fake, body, buffer_memory=1500, batch_size=1000, linger_ms=1)
    assert sum(len(logged(fake, "t", number)) for number in range(4)) == 40


def test_a_send_that_is_cancelled_takes_no_other_record_along(fake: FakeCluster):
    fake.create_topic("t")
    is_full = True
    fake.fault = lambda *_: ErrorCode.NOT_ENOUGH_REPLICAS if is_full else None

    async def body(producer: AsyncProducer) -> list[int]:
        nonlocal is_full
        waiting, futures = None, []
        for n in range(12):  # of which every third closes a batch
            waiting = asyncio.create_task(producer.send("t", b"%d" % n + b"x" * 400))
            await asyncio.wait([waiting], timeout=0.05)
            if not waiting.done():
                break
            futures.append(waiting.result())
        assert waiting is not None and not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        is_full = False
        await producer.flush()
        async with asyncio.timeout(20):
            return await asyncio.gather(*futures)

    offsets = with_producer(fake, body, buffer_memory=2000, batch_size=1000, linger_ms=10_000)
    assert offsets == list(range(len(offsets)))
    # The cancelled one was appended before it waited, as it would have been a moment later.
    assert len(logged(fake)) == len(offsets) + 1 > 3


def test_a_stopped_producer_goes_on_with_what_it_had_when_it_is_started_again(fake: FakeCluster):
    fake.create_topic("t")

    async def main() -> int:
        async with AsyncCluster(fake.bootstrap_servers, linger_ms=60_000) as cluster:
            producer = AsyncProducer(cluster)
            await producer.start()
            given_up = await producer.send("t", b"a")
            await producer.stop(flush=False)
            assert given_up.cancelled()
            await producer.start()
            future = await producer.send("t", b"b")
            await producer.stop()
            return future.result()

    assert asyncio.run(main()) == 1
    assert logged(fake) == [b"a", b"b"]


def test_what_is_not_started_or_stopped_says_so(fake: FakeCluster):
    async def main() -> None:
        async with AsyncCluster(fake.bootstrap_servers) as cluster:
            producer = AsyncProducer(cluster)
            with pytest.raises(ClientError, match="not started"):
                await producer.send("t", b"")
            fake.create_topic("t")
            await producer.start()
            await producer.send("t", b"a", partition=0)
            future = await producer.send("t", b"b", partition=0)
            await producer.stop()
            assert future.done() and future.result() == 1
            with pytest.raises(ClientError, match="not started"):
                await producer.flush()

    asyncio.run(main())


def test_nobody_there_is_an_error_with_the_address():
    async def main() -> None:
        async with AsyncCluster("127.0.0.1:1", api_timeout_ms=50) as cluster:
            with pytest.raises(ClientError, match=r"127\.0\.0\.1:1"):
                await cluster.topic("t")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (framed(b"\x00\x00\x00\x63garbage"), ProtocolError),  # another correlation id
        (framed(b"\x00\x00\x00\x01\xff"), ProtocolError),
        (b"\x7f\xff\xff\xff", ProtocolError),  # a length of 2 GiB
        (None, ConnectionFailed),
        (b"", RequestTimedOut),
    ],
)
def test_strange_answers_end_the_connection_and_every_request_on_it(
    answer: Any, error: type[ClientError]
):
    def reply(request: Any, version: int, correlation_id: int) -> Any:
        return NotImplemented if type(request).__name__ == "ApiVersionsRequest" else answer

    async def main(broker: FakeBroker) -> None:
        config = ClientConfig(request_timeout_ms=200 if answer == b"" else 30_000)
        connection = await AsyncConnection.open(config, "127.0.0.1", broker.port)
        both = [connection.request(MetadataRequest(topics=None)) for _ in range(2)]
        found = await asyncio.gather(*both, return_exceptions=True)
        assert type(found[0]) is error
        assert all(isinstance(one, ClientError) for one in found)
        assert not connection.is_open and connection.in_flight == 0

    with FakeBroker(reply, {3: (0, 13)}) as broker:
        asyncio.run(main(broker))
