"""What the quorum machine sends reaches the right address, and every request has an outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fencepost.broker.cluster.peer_connection import Unsupported
from fencepost.broker.cluster.peers import ConnectionRefused
from fencepost.broker.cluster.quorum_channel import QuorumChannel
from fencepost.broker.config.quorum_config import Server
from fencepost.machines.quorum import FetchAnswered, RequestFailed, VoteAnswered
from fencepost.machines.quorum.voters import Endpoint
from fencepost.wire.api.fetch import FetchRequest, FetchResponse
from fencepost.wire.api.vote import VoteRequest
from fencepost.wire.errors import ErrorCode

KEY = "__cluster_metadata-0"
REQUEST_TIMEOUT_MS = 1_000


@dataclass
class Sent:
    """One request that was handed to the connections."""

    address: tuple[str, int]
    request: Any
    on_response: Callable[[Any], None]
    on_failure: Callable[[str], None]
    timeout_ms: int


@dataclass
class FakePeers:
    """Connections that only remember."""

    loop: asyncio.AbstractEventLoop
    sent: list[Sent] = field(default_factory=list)

    def send(self, *arguments: Any, purpose: str, keyed: Any = None) -> None:
        assert purpose == "quorum" and keyed is None
        self.sent.append(Sent(*arguments))


@dataclass
class FakeDriver:
    """Keeps what it is fed."""

    inputs: list[Any] = field(default_factory=list)

    def feed(self, key: str, input_: Any) -> None:
        assert key == KEY
        self.inputs.append(input_)


class FakeMachine:
    """Knows where node 2 is."""

    epoch = 3
    leader_id = -1

    def address_of(self, node_id: int) -> Endpoint | None:
        return Endpoint("CONTROLLER", "two", 9093) if node_id == 2 else None


class World:
    """A channel among fakes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.peers = FakePeers(loop)
        self.driver = FakeDriver()
        self.machine = FakeMachine()
        servers = (Server("first", 1), Server("second", 2))
        self.channel = QuorumChannel(
            self.peers,  # type: ignore[arg-type]
            self.driver,  # type: ignore[arg-type]
            self.machine,  # type: ignore[arg-type]
            servers,
            REQUEST_TIMEOUT_MS,
        )


def run(test: Callable[[World], Any]) -> None:
    async def body() -> None:
        await test(World(asyncio.get_running_loop()))

    asyncio.run(body())


def test_answers_come_back_with_the_very_request():
    async def test(world: World) -> None:
        request, response = FetchRequest(), FetchResponse()
        world.channel.send(KEY, 2, request)
        (sent,) = world.peers.sent
        assert sent.address == ("two", 9093)
        sent.on_response(response)
        (heard,) = world.driver.inputs
        assert isinstance(heard, FetchAnswered)
        assert heard.source == 2 and heard.request is request and heard.response is response

    run(test)


def test_a_controller_of_another_cluster_is_logged_once_until_it_answers_otherwise(caplog):
    async def test(world: World) -> None:
        def answer(error: ErrorCode) -> int:
            world.channel.send(KEY, 2, FetchRequest())
            world.peers.sent[-1].on_response(FetchResponse(error_code=error))
            return caplog.text.count("belongs to another cluster")

        assert answer(ErrorCode.NONE) == 0
        assert answer(ErrorCode.INCONSISTENT_CLUSTER_ID) == 1
        assert answer(ErrorCode.INCONSISTENT_CLUSTER_ID) == 1
        assert world.channel.of_other_clusters == {("two", 9093)}
        assert "controller at two:9093" in caplog.text
        assert answer(ErrorCode.NONE) == 1
        assert world.channel.of_other_clusters == set()
        assert answer(ErrorCode.INCONSISTENT_CLUSTER_ID) == 2

    run(test)


def test_failures_are_told_before_the_machine_gives_up_by_itself():
    async def test(world: World) -> None:
        request = FetchRequest()
        world.channel.send(KEY, 2, request)
        (sent,) = world.peers.sent
        assert sent.timeout_ms < REQUEST_TIMEOUT_MS
        sent.on_failure("the peer closed the connection")
        (heard,) = world.driver.inputs
        assert isinstance(heard, RequestFailed) and heard.request is request

    run(test)


def test_a_refused_connection_is_told_as_such():
    async def test(world: World) -> None:
        for _ in range(2):
            world.channel.send(KEY, 2, FetchRequest())
        for sent, reason in zip(
            world.peers.sent,
            ("the peer closed the connection", ConnectionRefused("no")),
            strict=True,
        ):
            sent.on_failure(reason)
        assert [one.is_refused for one in world.driver.inputs] == [False, True]

    run(test)


def test_pseudo_ids_are_the_bootstrap_servers():
    async def test(world: World) -> None:
        for node_id in (-2, -3):
            world.channel.send(KEY, node_id, FetchRequest())
        assert [sent.address for sent in world.peers.sent] == [("first", 1), ("second", 2)]

    run(test)


def test_an_unknown_node_fails_later():
    async def test(world: World) -> None:
        for node_id in (7, -4):
            world.channel.send(KEY, node_id, FetchRequest())
        assert world.driver.inputs == [] == world.peers.sent
        await asyncio.sleep(0)
        assert [one.source for one in world.driver.inputs] == [7, -4]
        assert all(isinstance(one, RequestFailed) for one in world.driver.inputs)

    run(test)


def test_a_vote_the_peer_has_no_version_for_is_answered_so():
    async def test(world: World) -> None:
        world.channel.send(KEY, 2, VoteRequest())
        world.channel.send(KEY, 2, FetchRequest())
        for sent in world.peers.sent:
            sent.on_failure(Unsupported("too old"))
        vote, fetch = world.driver.inputs
        assert isinstance(vote, VoteAnswered)
        assert vote.response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert isinstance(fetch, RequestFailed)

    run(test)


def test_each_leader_is_logged_once(caplog, monkeypatch):
    import logging

    monkeypatch.setattr(logging.getLogger("fencepost"), "propagate", True)

    async def test(world: World) -> None:
        with caplog.at_level(logging.INFO):
            for leader_id in (-1, 2, 2, -1, 2):
                world.machine.leader_id = leader_id
                world.channel.note_leader()
        assert [record.getMessage() for record in caplog.records] == [
            "controller 2 leads the quorum, epoch 3"
        ]

    run(test)
