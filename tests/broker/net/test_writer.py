"""Output to clients: straight to the socket where nothing stands between, or by the transport."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.net.connection import Connection
from fencepost.broker.net.turn import QUANTUM_BYTES
from fencepost.broker.net.writer import (
    CHUNK_BYTES,
    TLS_VECTOR_BYTES,
    VECTOR_PARTS,
    SocketWriter,
    TransportWriter,
    writer_for,
)
from fencepost.wire.api import DescribeGroupsRequest
from fencepost.wire.api.describe_groups import DescribedGroup, DescribeGroupsResponse

from ..listener_fixtures import DEADLINE_S, Client, route, serve_listener


class Transport:
    """Notes what it is given; `behind` is what it says to be over."""

    def __init__(self, behind: dict[str, Any], unwritten: int = 0) -> None:
        self._behind = behind
        self.unwritten = unwritten
        self.written: list[bytes] = []

    def get_extra_info(self, name: str) -> Any:
        return self._behind.get(name)

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        assert low == 0 < high

    def get_write_buffer_size(self) -> int:
        return self.unwritten

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def write_chunks(self, chunks: Iterable[Any]) -> None:
        self.written += map(bytes, chunks)


@pytest.fixture
def pair() -> Any:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        yield near, far


def over(near: socket.socket, unwritten: int = 0, **behind: Any) -> tuple[Transport, Any]:
    transport = Transport({"socket": near, **behind}, unwritten)
    return transport, writer_for(transport)  # type: ignore[arg-type]


def test_large_output_goes_to_a_plain_socket_as_a_vector(pair: Any) -> None:
    near, far = pair
    transport, writer = over(near)
    assert writer.write_some(deque([b"one", memoryview(b"two")]), QUANTUM_BYTES) == 6
    assert far.recv(100) == b"onetwo" and transport.written == []


def test_a_vector_has_no_more_parts_than_systems_allow(pair: Any) -> None:
    near, _ = pair
    _, writer = over(near)
    assert writer.write_some(deque([b"x"] * (VECTOR_PARTS + 1)), QUANTUM_BYTES) == VECTOR_PARTS


def test_a_vector_has_no_more_bytes_than_may_be_written(pair: Any) -> None:
    near, far = pair
    _, writer = over(near)
    for most_bytes, taken in ((7, b"onetwot"), (6, b"onetwo"), (5, b"onetw"), (2, b"on")):
        parts: deque[Any] = deque([b"one", b"two", b"three"])
        assert writer.write_some(parts, most_bytes) == most_bytes
        assert far.recv(100) == taken


def test_nothing_overtakes_what_the_transport_has_left_to_write(pair: Any) -> None:
    near, _ = pair
    transport, writer = over(near, unwritten=1)
    assert writer.write_some(deque([b"one", b"two"]), QUANTUM_BYTES) == 3
    assert transport.written == [b"one"]


def test_what_a_full_socket_does_not_take_waits_in_the_transport(pair: Any) -> None:
    near, _ = pair
    transport, writer = over(near)
    large = bytes(4 * CHUNK_BYTES)
    with contextlib.suppress(BlockingIOError):
        while True:
            near.send(large)
    assert writer.write_some(deque([large]), QUANTUM_BYTES) == CHUNK_BYTES
    assert transport.written == [large[:CHUNK_BYTES]]


def test_a_broken_connection_is_an_error(pair: Any) -> None:
    near, far = pair
    _, writer = over(near)
    far.close()
    with pytest.raises(OSError):
        writer.write_some(deque([b"nobody is there"]), QUANTUM_BYTES)


def test_behind_a_layer_that_encrypts_nothing_goes_to_the_socket(pair: Any) -> None:
    near, far = pair
    transport, writer = over(near, sslcontext=object())
    assert type(writer) is TransportWriter
    assert writer.write_some(deque([b"secret"]), QUANTUM_BYTES) == 6
    writer.write(b"small")
    assert transport.written == [b"secret", b"small"]
    far.setblocking(False)
    with pytest.raises(BlockingIOError):
        far.recv(100)


def test_a_transport_without_a_socket_is_given_everything() -> None:
    transport = Transport({})
    assert type(writer_for(transport)) is TransportWriter  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([TLS_VECTOR_BYTES * 2], id="one-part"),
        pytest.param([100, CHUNK_BYTES * 2, 7], id="an-answer-and-its-head"),
        pytest.param([1_000] * 300, id="many-small-parts"),
        pytest.param([CHUNK_BYTES] * 3, id="chunks"),
        pytest.param([1_000, 0, CHUNK_BYTES - 1_000, 0], id="empty-parts"),
    ],
)
def test_tls_is_given_whole_chunks(sizes: list[int]) -> None:
    """So that what its records cost besides is that of few records."""
    transport = Transport({"tls": object()})
    writer = writer_for(transport)  # type: ignore[arg-type]
    data = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    taken = writer.write_some(deque(data), QUANTUM_BYTES)
    assert taken == min(sum(sizes), TLS_VECTOR_BYTES)
    assert b"".join(transport.written) == b"".join(data)[:taken]
    *whole, last = map(len, transport.written)
    assert whole == [CHUNK_BYTES] * len(whole) and 0 < last <= CHUNK_BYTES


@pytest.mark.parametrize(("unwritten", "most_bytes", "taken"), [
    (0, QUANTUM_BYTES, TLS_VECTOR_BYTES),
    (0, CHUNK_BYTES + 1, CHUNK_BYTES + 1),
    (1, QUANTUM_BYTES, CHUNK_BYTES),
    (1, 10, 10),
])  # fmt: skip
def test_less_is_encrypted_for_a_socket_that_is_full(
    unwritten: int, most_bytes: int, taken: int
) -> None:
    transport = Transport({"tls": object()}, unwritten)
    writer = writer_for(transport)  # type: ignore[arg-type]
    parts: deque[Any] = deque([bytes(QUANTUM_BYTES), b"more"])
    assert writer.write_some(parts, most_bytes) == taken == sum(map(len, transport.written))


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The server's, with a certificate made for it, and a client's that trusts no other."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    directory: Path = tmp_path_factory.mktemp("tls")
    key, certificate = directory / "key.pem", directory / "cert.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    return server, ssl.create_default_context(cafile=str(certificate))


@pytest.mark.parametrize("size_bytes", [10, 5_000_000])
def test_answers_of_any_size_arrive_over_tls(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], size_bytes: int
) -> None:
    """There is no TLS listener yet; a connection works under one."""
    server_side, client_side = contexts
    groups = [DescribedGroup(group_id="g" * 10_000)] * max(1, size_bytes // 10_000)

    def handler(context: Any, request: Any) -> Any:
        return DescribeGroupsResponse(groups=groups)

    with route(DescribeGroupsRequest, (5, 5), handler), serve_listener() as served:

        async def serve() -> asyncio.Server:
            return await served.thread.loop.create_server(
                lambda: Connection(served.listener, served.listener.securities["PLAINTEXT"]),
                "127.0.0.1",
                0,
                ssl=server_side,
            )

        server = served.thread.call(serve)
        raw = socket.create_connection(server.sockets[0].getsockname(), timeout=DEADLINE_S)
        with client_side.wrap_socket(raw, server_hostname="localhost") as sock:
            answer = Client(sock).ask(DescribeGroupsRequest(groups=["g"]), 5)
            assert answer.groups == groups
            (connection,) = served.listener.connections
            assert not isinstance(connection._output._writer, SocketWriter)
        served.thread.call(server.close)
