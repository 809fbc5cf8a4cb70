"""The way of fetchers' requests: whom they reach, in which version, and what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from fencepost.broker.replicas.fetch_channel import FetchChannel
from fencepost.machines.fetcher import LeaderAnswered, LeaderFailed, LeaderRequest
from fencepost.machines.image import BrokerImage, ClusterImage, ListenerImage
from fencepost.machines.image.persistent import PersistentMap
from fencepost.wire.api.vote import VoteRequest, VoteResponse
from fencepost.wire.types import Uuid

from ...waiting import DEADLINE_S
from ..cluster.test_peers import Node, node, polite, until

LEADER = 2


def image_of(address: tuple[str, int], listener: str = "INTERNAL") -> ClusterImage:
    """Broker 2 listens there, under that name."""
    listeners = (
        ListenerImage("PLAINTEXT", "127.0.0.1", 1, 0),
        ListenerImage(listener, *address, 0),
    )
    broker = BrokerImage(
        LEADER, 7, Uuid.ZERO, listeners, (), None, fenced=False, in_controlled_shutdown=False,
        log_dirs=(),
    )  # fmt: skip
    return ClusterImage(brokers=PersistentMap({LEADER: broker}))


def channel_to(image: ClusterImage) -> FetchChannel:
    return FetchChannel(
        asyncio.get_running_loop(),
        1,
        "INTERNAL",
        lambda: image,
        max_response_bytes=1 << 16,
        backoff_ms=1,
    )


def request(number: int = 1, **fields: Any) -> LeaderRequest:
    """Any request will do: what it says is the fetcher's business."""
    asked = LeaderRequest(number, VoteRequest(), 0, 1, int(DEADLINE_S * 1000))
    return replace(asked, **fields)


async def outcome(channel: FetchChannel, asked: LeaderRequest, fetcher: int = 0) -> Any:
    told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    channel.ask(LEADER, fetcher, asked, told.set_result)
    assert not told.done()
    return await told


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), DEADLINE_S))


def test_a_leader_is_asked_at_the_listener_of_brokers_in_a_version_of_the_span() -> None:
    async def test() -> None:
        async with node(polite) as peer:
            channel = channel_to(image_of(peer.address))
            answered = await outcome(channel, request(5))
            assert answered == LeaderAnswered(5, VoteResponse())
            assert peer.asked[-1] == ("VoteRequest", 1)
            failed = await outcome(channel, request(6, lowest=7, highest=9))
            assert isinstance(failed, LeaderFailed)
            assert (failed.number, failed.is_unsupported) == (6, True)
            channel.close()

    run(test)


def test_a_leader_that_is_not_there_fails_later() -> None:
    async def test() -> None:
        for image in (ClusterImage(), image_of(("127.0.0.1", 1), "OTHER")):
            failed = await outcome(channel_to(image), request(3))
            assert failed == LeaderFailed(3, "broker 2 has no listener INTERNAL")

    run(test)


def test_fetchers_have_connections_of_their_own_and_an_abandoned_request_is_closed() -> None:
    gone = asyncio.Event()

    async def hold(made: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made.greet(reader, writer)
        if made.connections == 1:
            await made.read(reader)
            assert await reader.read() == b""
            gone.set()
        else:
            await made.votes(reader, writer)

    async def test() -> None:
        async with node(hold) as peer:
            channel = channel_to(image_of(peer.address))
            told: list[Any] = []
            channel.ask(LEADER, 0, request(1), told.append)
            await until(lambda: len(peer.asked) == 2)
            assert isinstance(await outcome(channel, request(1), fetcher=1), LeaderAnswered)
            assert peer.connections == 2
            assert isinstance(await outcome(channel, request(2, abandons=True)), LeaderAnswered)
            await gone.wait()
            assert told == []
            channel.close()

    run(test)
