"""A listener without a node behind it, and raw sockets: what the tests of the listener share."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.config.endpoints import ConnectionLimits, Endpoint
from fencepost.broker.net.listener import Listener
from fencepost.broker.net.registry import ROUTES, Route
from fencepost.runtime.cooperative import Scheduler
from fencepost.testing import Cluster
from fencepost.wire.api import response_class
from fencepost.wire.frame import decode_response, encode_request
from fencepost.wire.message import Message

from ..waiting import DEADLINE_S
from .apis.harness import BoundRoutes

LIMITS = ConnectionLimits(
    max_frame_bytes=1 << 20, max_connections=100, max_connections_per_ip=100, max_idle_ms=600_000
)


@dataclass
class BareImage:
    """As much of a cluster image as ApiVersions looks at."""

    offset: int = 42
    features: dict[str, int] = field(default_factory=lambda: {"metadata.version": 30})


@dataclass
class BareMetadata:
    """As much of a node's `MetadataCache` as ApiVersions looks at."""

    image: BareImage = field(default_factory=BareImage)
    cluster_id: str = "c"

    @property
    def finalized_features(self) -> dict[str, int]:
        return self.image.features


class LoopThread:
    """An event loop in a thread of its own; `call` runs functions in it."""

    def __init__(self, new_loop: Callable[[], Any] = asyncio.new_event_loop) -> None:
        self.loop = new_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function, or a coroutine function to its end, in the loop."""

        async def run() -> Any:
            made = function(*arguments)
            return await made if asyncio.iscoroutine(made) else made

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(DEADLINE_S)

    def close(self) -> None:
        """Stop the loop and wait for the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(DEADLINE_S)
        self.loop.close()


@contextlib.contextmanager
def serve_listener(
    limits: ConnectionLimits = LIMITS,
    node: Any = None,
    new_loop: Callable[[], Any] = asyncio.new_event_loop,
) -> Iterator[ServedListener]:
    """A listener that serves, on a free loopback port."""
    thread = LoopThread(new_loop)
    try:
        config = BrokerConfig.load(None, {"node.id": "7"})
        parts = {BrokerConfig: config, MetadataCache: BareMetadata()}
        scheduler = Scheduler(thread.loop)
        routes = BoundRoutes(ROUTES, parts)
        listener = Listener(thread.loop, limits, scheduler.lane(), routes)
        (bound,) = listener.bind([Endpoint("PLAINTEXT", "127.0.0.1", 0)])
        thread.call(listener.start)
        try:
            yield ServedListener(thread, listener, bound.port, scheduler)
        finally:
            thread.call(listener.close)
    finally:
        thread.close()


@dataclass
class ServedListener:
    """The running listener and where to knock."""

    thread: LoopThread
    listener: Listener
    port: int
    scheduler: Scheduler

    def connect(self) -> Client:
        """A new client."""
        return Client(socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S))

    def connection_count(self) -> int:
        """Connections open at the moment."""
        return self.thread.call(lambda: len(self.listener.connections))


def connect(cluster: Cluster, timeout_s: float = DEADLINE_S) -> Client:
    """A raw client of a served broker."""
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    return Client(socket.create_connection((host, int(port)), timeout=timeout_s))


class Client:
    """A blocking socket that knows frames."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._correlation = 0
        self.client_id = "test"

    def send(self, message: Message, version: int) -> int:
        """Send a request; its correlation id."""
        self._correlation += 1
        self.sock.sendall(encode_request(message, version, self._correlation, self.client_id))
        return self._correlation

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.sock.sendall(data)

    def receive_frame(self) -> bytes:
        """One response, without its length. EOFError when the server disconnects."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def receive(self, api_key: int, version: int) -> tuple[int, Any]:
        """One response: correlation id and message."""
        cls = response_class(api_key)
        header, response = decode_response(cls, version, self.receive_frame())
        return header.correlation_id, response

    def ask(self, message: Message, version: int) -> Any:
        """Send a request and return its response."""
        sent = self.send(message, version)
        correlation, response = self.receive(type(message).api_key, version)
        assert correlation == sent
        return response

    def is_disconnected(self) -> bool:
        """Whether the server closes the connection (waits for it)."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.sock.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)


@contextlib.contextmanager
def route(request_class: type[Message], versions: tuple[int, int], handler: Any) -> Iterator[None]:
    """Serve `request_class` with `handler` for the length of a test, in place of the real one."""
    key = request_class.api_key
    assert key is not None
    before = ROUTES.get(key)
    name = request_class.__name__.removesuffix("Request")
    ROUTES[key] = Route(key, name, request_class, *versions, versions[0], handler)
    try:
        yield
    finally:
        if before is None:
            del ROUTES[key]
        else:
            ROUTES[key] = before
