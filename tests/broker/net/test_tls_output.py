"""Large answers over TLS: what a slow client has not taken, in order, counted, and gone with it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fencepost.broker.net.connection import Connection
from fencepost.broker.net.listener_security import ListenerSecurity
from fencepost.broker.net.writer import CHUNK_BYTES, TLS_VECTOR_BYTES
from fencepost.broker.security.principal_mapping import PrincipalMapping
from fencepost.broker.security.server_tls import ServerTls
from fencepost.machines.session import SessionRules
from fencepost.testing.certificates import CertificateAuthority
from fencepost.wire.api import DescribeGroupsRequest
from fencepost.wire.api.describe_groups import DescribedGroup, DescribeGroupsResponse

from ...waiting import DEADLINE_S, eventually
from ..listener_fixtures import LIMITS, Client, ServedListener, route, serve_listener
from .test_tls_bounds import Ends, ends

__all__ = ["ends"]

REQUESTS = 12
SIZES = (700_000, 40_000, 300_000, 1_000)
GROUP_BYTES = 1_000
BUFFER_BYTES = 16 * 1024
"""Of the sockets of slow clients, so that the broker's is full soon."""


class Records:
    """Encrypts by turning bytes over, and has a record for each write."""

    def __init__(self, outgoing: ssl.MemoryBIO) -> None:
        self._outgoing = outgoing

    def write(self, data: Any) -> None:
        self._outgoing.write(bytes(data)[::-1])


class Below:
    """A socket's transport, which keeps what it is given."""

    def __init__(self, sock: socket.socket, transport: Any) -> None:
        self._sock = sock
        self._transport = transport
        self.kept = b""

    def get_extra_info(self, name: str) -> Any:
        return self._sock if name == "socket" else None

    def get_write_buffer_size(self) -> int:
        return len(self.kept)

    def write(self, data: Any) -> None:
        self.kept += bytes(data)
        self._transport.pause_writing()


class Pair(NamedTuple):
    """A transport with TLS over a real socket, and the socket's other end."""

    ends: Ends
    below: Below
    far: socket.socket

    @property
    def outgoing_bytes(self) -> int:
        return self.ends.transport._budget.outgoing_bytes


@pytest.fixture
def pair(ends: Ends) -> Iterator[Pair]:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        far.setblocking(False)
        transport = ends.transport
        for name in ("pause_writing", "resume_writing", "connection_lost"):
            setattr(ends.above, name, lambda *_: None)
        below = Below(near, transport)
        transport._transport = below
        transport._object = Records(transport._outgoing)  # type: ignore[assignment]
        yield Pair(ends, below, far)


def received(sock: socket.socket) -> bytes:
    data = bytearray()
    with contextlib.suppress(BlockingIOError):
        while piece := sock.recv(1 << 20):
            data += piece
    return bytes(data)


CHUNKS = [bytes([number]) * CHUNK_BYTES for number in range(16)]


def test_records_leave_in_order_and_what_is_left_waits_in_the_transport(pair: Pair) -> None:
    pair.ends.transport.write_chunks(CHUNKS)  # more than the socket takes
    taken = received(pair.far)
    assert taken and pair.below.kept and taken + pair.below.kept == b"".join(CHUNKS)
    assert pair.outgoing_bytes == len(pair.below.kept)
    pair.ends.transport.write_chunks([b"behind it"])
    assert received(pair.far) == b"" and pair.below.kept.endswith(b"ti dniheb")
    assert pair.outgoing_bytes == len(pair.below.kept)


@pytest.mark.parametrize("end", ["resume_writing", "connection_lost"])
def test_what_waits_is_counted_until_it_is_sent_or_lost(pair: Pair, end: str) -> None:
    pair.ends.transport.write_chunks(CHUNKS)
    assert pair.outgoing_bytes > 0
    getattr(pair.ends.transport, end)(*[None] * (end == "connection_lost"))
    assert pair.outgoing_bytes == 0


def test_records_that_leave_at_once_are_not_counted(pair: Pair) -> None:
    pair.ends.transport.write_chunks([b"one", b"two"])
    assert received(pair.far) == b"enoowt" and not pair.below.kept
    assert pair.outgoing_bytes == 0


def test_a_broken_connection_is_an_error(pair: Pair) -> None:
    pair.far.close()
    with pytest.raises(OSError):
        pair.ends.transport.write_chunks(CHUNKS)


def test_nothing_is_written_when_it_is_over(pair: Pair) -> None:
    pair.ends.transport._end()
    pair.ends.transport.write_chunks(CHUNKS)
    assert received(pair.far) == b"" and not pair.below.kept


# -- over sockets ----------------------------------------------------------------------------------


def uvloop_loop() -> Any:
    return pytest.importorskip("uvloop").new_event_loop()


LOOPS = [
    pytest.param(asyncio.new_event_loop, id="asyncio"),
    pytest.param(uvloop_loop, id="uvloop"),
]


def answer_of(number: int) -> list[DescribedGroup]:
    """So many bytes, and a few more, of groups whose names tell the request."""
    name = chr(ord("a") + number) * GROUP_BYTES
    return [DescribedGroup(group_id=name)] * (SIZES[number % len(SIZES)] // GROUP_BYTES)


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServedListener]:
    """A listener whose answers are large, on the event loop that is asked for."""
    authority = CertificateAuthority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("broker").write(tmp_path))
    tls = ServerTls(context, PrincipalMapping(""), None)  # type: ignore[arg-type]
    security = ListenerSecurity("TLS", SessionRules(LIMITS.max_frame_bytes), tls=tls)

    def handler(context: Any, asked: Any) -> Any:
        (group,) = asked.groups
        return DescribeGroupsResponse(groups=answer_of(int(group)))

    new_loop: Callable[[], Any] = request.param
    with (
        route(DescribeGroupsRequest, (5, 5), handler),
        serve_listener(new_loop=new_loop) as made,
    ):
        listener = made.listener

        async def serve() -> asyncio.AbstractServer:
            return await made.thread.loop.create_server(
                lambda: listener.tls.below(Connection(listener, security), tls), "127.0.0.1", 0
            )

        server = made.thread.call(serve)
        made.port = server.sockets[0].getsockname()[1]
        yield made
        made.thread.call(server.close)


@contextlib.contextmanager
def slow_client(served: ServedListener) -> Iterator[Client]:
    """One that has asked for much, and has not read yet."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    raw.settimeout(DEADLINE_S)
    raw.connect(("127.0.0.1", served.port))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(raw) as sock:
        (connection,) = served.thread.call(lambda: list(served.listener.connections))
        near = connection._transport.get_extra_info("socket")
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        client = Client(sock)
        for number in range(REQUESTS):
            client.send(DescribeGroupsRequest(groups=[str(number)]), 5)
        eventually(lambda: connection._output.is_paused)
        yield client


def outgoing_bytes(served: ServedListener) -> int:
    return int(served.listener.memory_budget.outgoing_bytes)


@pytest.mark.parametrize("served", LOOPS, indirect=True)
def test_a_slow_client_gets_every_answer_whole(served: ServedListener) -> None:
    with slow_client(served) as client:
        (connection,) = served.listener.connections
        before_bytes = served.thread.call(lambda: connection._output.size_bytes)
        waits_bytes, counted_bytes = served.thread.call(
            lambda: (connection._transport.get_write_buffer_size(), outgoing_bytes(served))
        )
        assert connection._output.size_bytes == before_bytes  # it is paused until it reads
        assert CHUNK_BYTES < waits_bytes <= counted_bytes - before_bytes
        assert counted_bytes - before_bytes < TLS_VECTOR_BYTES + 2 * CHUNK_BYTES
        for number in range(REQUESTS):
            _, answer = client.receive(DescribeGroupsRequest.api_key, 5)
            assert answer.groups == answer_of(number)
        eventually(lambda: outgoing_bytes(served) == 0)
        assert served.connection_count() == 1


@pytest.mark.parametrize("served", LOOPS, indirect=True)
def test_what_waits_for_a_client_that_leaves_is_given_back(served: ServedListener) -> None:
    with slow_client(served):
        assert outgoing_bytes(served) > 0
    eventually(lambda: served.connection_count() == 0)
    assert outgoing_bytes(served) == 0
