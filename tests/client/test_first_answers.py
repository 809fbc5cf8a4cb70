"""Requests that a conversation goes on without, and the first of several answers, in both faces."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.client.aio import AsyncCluster
from fencepost.client.cluster import Cluster
from fencepost.client.connection import Connection, wait_readable
from fencepost.client.conversation import (
    Begin,
    Connect,
    Conversation,
    Exchange,
    FirstOf,
    Where,
)
from fencepost.client.errors import ClientError, ConnectionFailed, RequestTimedOut
from fencepost.client.protocol.framing import ReceiveBuffer
from fencepost.wire.api.api_versions import ApiVersionsRequest
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from fencepost.wire.frame import LENGTH_BYTES, encode_response_parts

from ..waiting import DEADLINE_S, eventually
from .fake_broker import FakeBroker

METADATA = 3
LONG_MS = DEADLINE_S * 1000


class HoldingBroker(FakeBroker):
    """Holds the answer to each request for metadata until a test sends it, or parts of it."""

    def __init__(self) -> None:
        self.held: list[bytes] = []
        super().__init__(self._hold, {METADATA: (0, 9)})

    def _hold(self, request: Any, version: int, correlation_id: int) -> Any:
        if isinstance(request, ApiVersionsRequest):
            return NotImplemented
        answer = MetadataResponse(cluster_id=request.topics[0].name)
        self.held.append(b"".join(encode_response_parts(answer, version, correlation_id)))
        return b""

    def send(self, begin: int = 0, end: int | None = None) -> None:
        """Send these bytes of the oldest answer."""
        eventually(lambda: self.held, "the request to come")
        (connection,) = self._open
        connection.sendall(self.held[0][begin:end])
        if end is None:
            del self.held[0]


class Face:
    """Carries out conversations, and nothing in between."""

    def __init__(self, cluster: Any, runner: asyncio.Runner | None) -> None:
        self.cluster = cluster
        self._runner = runner

    def run(self, conversation: Conversation[Any]) -> Any:
        done = self.cluster.run(conversation)
        return done if self._runner is None else self._runner.run(done)

    def begin(self, broker: FakeBroker, name: str, **more: Any) -> tuple[Any, Any]:
        """A request on its way, and its connection."""

        def beginning() -> Conversation[Any]:
            connection = yield from Connect(Where("127.0.0.1", broker.port, "test"))
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
            return (yield from Begin(Exchange(connection, request, **more))), connection

        begun: tuple[Any, Any] = self.run(beginning())
        return begun

    def first_of(self, begun: list[Any], wait_ms: float) -> list[Any]:
        def waiting() -> Conversation[list[Any]]:
            return (yield from FirstOf(begun, wait_ms))

        found = self.run(waiting())
        return [one.cluster_id if isinstance(one, MetadataResponse) else one for one in found]


@pytest.fixture(params=["blocking", "asyncio"])
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    if request.param == "blocking":
        with Cluster("127.0.0.1:1") as cluster:
            yield Face(cluster, None)
        return
    with asyncio.Runner() as runner:
        cluster = AsyncCluster("127.0.0.1:1")
        yield Face(cluster, runner)
        runner.run(cluster.close())


@pytest.fixture
def brokers() -> Iterator[list[HoldingBroker]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(HoldingBroker()) for _ in range(3)]


def wait_for_bytes(connection: Any) -> None:
    """Until there is something to read, which is left there."""
    is_blocking = isinstance(connection, Connection)
    wait_readable(
        [connection if is_blocking else connection._transport.get_extra_info("socket")], LONG_MS
    )


def test_the_answers_that_are_there_come_and_the_others_stay_in_flight(face, brokers):
    begun = [face.begin(broker, name)[0] for broker, name in zip(brokers, "abc", strict=True)]
    assert face.first_of(begun, 0) == [None, None, None]
    brokers[1].send()
    assert face.first_of(begun, LONG_MS) == [None, "b", None]
    brokers[0].send()
    assert face.first_of([begun[0], begun[2]], LONG_MS) == ["a", None]
    assert face.first_of([begun[2]], 1) == [None]
    brokers[2].send()
    assert face.first_of([begun[2]], LONG_MS) == ["c"]


def test_an_answer_may_come_in_pieces_while_others_are_taken(face, brokers):
    (first, connection), (second, _) = (face.begin(one, "a") for one in brokers[:2])
    brokers[0].send(0, 3)  # not even the length
    wait_for_bytes(connection)
    assert face.first_of([first, second], 1)[0] is None
    brokers[0].send(3, 20)
    assert face.first_of([first], 1) == [None]
    brokers[1].send()
    assert face.first_of([first, second], LONG_MS) == [None, "a"]
    brokers[0].send(20)
    assert face.first_of([first], LONG_MS) == ["a"]


def test_an_answer_that_is_there_is_not_late(face, brokers):
    begun, connection = face.begin(brokers[0], "a", timeout_ms=1)
    brokers[0].send()
    wait_for_bytes(connection)
    time.sleep(0.01)  # the application does other things for longer than the timeout
    assert face.first_of([begun], 0) == ["a"]
    assert connection.is_open


def test_an_answer_that_is_coming_is_not_late(face, brokers):
    begun, connection = face.begin(brokers[0], "a", timeout_ms=1_000)
    brokers[0].send(0, 20)
    wait_for_bytes(connection)
    time.sleep(1.1)  # the application does other things for longer than the timeout
    for _ in range(2):
        assert face.first_of([begun], 0) == [None]
    brokers[0].send(20)
    assert face.first_of([begun], LONG_MS) == ["a"]


def test_no_answer_in_time_ends_the_connection(face, brokers):
    late, connection = face.begin(brokers[0], "a", timeout_ms=5)
    other, _ = face.begin(brokers[1], "b")
    found = face.first_of([late, other], LONG_MS)
    assert isinstance(found[0], RequestTimedOut) and found[1] is None
    assert not connection.is_open
    assert isinstance(face.first_of([late], 0)[0], ClientError), "it stays so"
    brokers[1].send()
    assert face.first_of([other], LONG_MS) == ["b"]


def test_a_connection_that_ends_is_an_error_of_its_request_alone(face, brokers):
    cut, connection = face.begin(brokers[0], "a")
    other, _ = face.begin(brokers[1], "b")
    eventually(lambda: brokers[0].held, "the request to come")
    brokers[0].cut_connections()
    found = face.first_of([cut, other], LONG_MS)
    assert isinstance(found[0], ConnectionFailed) and found[1] is None
    assert not connection.is_open
    brokers[1].send()
    assert face.first_of([other], LONG_MS) == ["b"]


def test_connections_with_a_purpose_are_for_nothing_else(face, brokers):
    _, connection = face.begin(brokers[0], "a")
    view = face.cluster
    assert view.open_connection() is None
    assert view.open_connection(Where("127.0.0.1", brokers[0].port)) is None
    view.close_connections("another")
    assert connection.is_open
    view.close_connections("test")
    assert not connection.is_open


def test_a_blocking_client_reads_into_the_buffer(brokers):
    with Cluster("127.0.0.1:1") as cluster:
        face, buffer = Face(cluster, None), ReceiveBuffer()
        begun, _ = face.begin(brokers[0], "a", buffer=buffer)
        brokers[0].send(0, 9)
        answer = brokers[0].held[0][LENGTH_BYTES:]
        eventually(lambda: face.first_of([begun], 0) == [None] and buffer._bytes, "the first bytes")
        brokers[0].send(9)
        assert face.first_of([begun], LONG_MS) == ["a"]
        assert buffer.view(len(answer)) == answer


def test_a_wait_ends_when_an_answer_comes(brokers):
    with Cluster("127.0.0.1:1") as cluster:
        face = Face(cluster, None)
        begun = [face.begin(broker, "a")[0] for broker in brokers]
        sender = threading.Thread(target=brokers[2].send)
        sender.start()
        assert face.first_of(begun, LONG_MS) == [None, None, "a"]
        sender.join()
