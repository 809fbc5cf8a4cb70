"""Requests to other nodes: connections that are made when needed, used again, and bounded.

Theory of operation
-------------------
`Peers.send` takes a request and where it goes, and later calls back once: with the response, or
with the reason why there is none. Losing a request is allowed, answering twice is not. Nothing here
retries; whoever asks knows whether that makes sense.

A connection carries one request at a time, because some are held back by their receiver for half a
second (Fetch) and nothing must wait behind them. Another request to the same peer takes a
connection that is idle, or a new one, up to `MAX_CONNECTIONS`; beyond that it waits, up to
`MAX_WAITING`. Requests of different purposes (the quorum's, those to the controller) do not share
connections, so that none of them can be in the way of another.

A new connection asks for ApiVersions first, and every request goes in the newest version that both
sides have. A peer that cannot be reached is left alone for a while, longer from time to time; what
is sent meanwhile fails at once, so that who can ask another node does. One that answers what cannot
be read, or out of turn, is hung up on and left alone likewise, with one log line until it has
answered as it should; so is one that hangs up on new connections, over and over, when it is asked.
"""

from __future__ import annotations

import asyncio
import logging
import random
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from fencepost import __version__
from fencepost.wire import api
from fencepost.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from fencepost.wire.errors import ErrorCode, WireError, error_name
from fencepost.wire.frame import decode_response, encode_request_parts
from fencepost.wire.message import Message

log = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 4
"""To one peer, for one purpose."""
MAX_WAITING: Final = 1_000
"""Requests to one peer, for one purpose, that no connection has taken yet."""
MAX_IDLE: Final = 2
"""Connections to one peer, for one purpose, that are kept for the next request."""
MAX_PEERS: Final = 1_000
"""Addresses that are remembered; addresses come from other nodes, and may be any."""
MAX_ELEMENTS: Final = 1_000_000
"""Array elements in a response: a peer that lies must not make gigabytes of its megabytes."""
CONNECT_TIMEOUT_S: Final = 10.0
BACKOFF_MAX_FACTOR: Final = 32
API_VERSIONS_NEWEST: Final = 4
CORRELATION_IDS: Final = 1 << 31

OnResponse = Callable[[Any], None]
OnFailure = Callable[[str], None]

Address = tuple[str, int]
"""Host name or IP address, and TCP port."""

_LENGTH = struct.Struct(">i")


class Refused(str):
    """The reason of a failure, where the host answered that nothing listens at the port."""

    __slots__ = ()


class Unserved(str):
    """The reason of a failure, where the peer serves the request in no version that can say it."""

    __slots__ = ()


class Peers:
    """Asks other nodes; see the module docstring. Everything runs in one event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        client_id: str,
        *,
        max_response_bytes: int,
        backoff_ms: int,
    ) -> None:
        self.loop = loop
        self.client_id = client_id
        self.max_response_bytes = max_response_bytes
        self.backoff_s = max(1, backoff_ms) / 1000
        self.closed = False
        self._peers: dict[tuple[str, int, str], _Peer] = {}

    def send(
        self,
        address: Address,
        request: Message,
        on_response: OnResponse,
        on_failure: OnFailure,
        timeout_ms: int,
        *,
        purpose: str = "",
    ) -> None:
        """Ask the node at `address`; one of the two is called, never before this returns."""
        host, port = address
        peer = self._peers.get((host, port, purpose))
        if peer is None:
            if len(self._peers) >= MAX_PEERS:
                self._peers = {key: one for key, one in self._peers.items() if one.is_in_use}
            peer = self._peers[host, port, purpose] = _Peer(self, host, port)
        peer.take(_Ask(self.loop, request, on_response, on_failure, timeout_ms))

    def __len__(self) -> int:
        return len(self._peers)

    def close(self) -> None:
        """Hang up everywhere; whoever still waits hears so."""
        self.closed = True
        for peer in list(self._peers.values()):
            peer.close()
        self._peers.clear()


class _Ask:
    """One request on its way, and whom to tell."""

    __slots__ = ("_loop", "_on_failure", "_on_response", "_timer", "connection", "request")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        request: Message,
        on_response: OnResponse,
        on_failure: OnFailure,
        timeout_ms: int,
    ) -> None:
        self.request = request
        self.connection: _Connection | None = None
        self._loop = loop
        self._on_response: OnResponse | None = on_response
        self._on_failure = on_failure
        self._timer = loop.call_later(timeout_ms / 1000, self._time_out, timeout_ms)

    @property
    def done(self) -> bool:
        """Whether somebody has been told."""
        return self._on_response is None

    def answer(self, response: Message) -> None:
        """There is a response."""
        on_response, self._on_response = self._on_response, None
        if on_response is not None:
            self._timer.cancel()
            _call(on_response, response)

    def fail(self, reason: str) -> None:
        """There will be none; told in a turn of its own, so that `send` never calls back."""
        if not self.done:
            self._on_response = None
            self._timer.cancel()
            self._loop.call_soon(_call, self._on_failure, reason)

    def _time_out(self, timeout_ms: int) -> None:
        reason = f"no answer within {timeout_ms} ms"
        self.fail(reason)
        if self.connection is not None:
            self.connection.drop(reason)


class _Peer:
    """The connections to one address for one purpose, and what waits for them."""

    def __init__(self, owner: Peers, host: str, port: int) -> None:
        self.owner = owner
        self._host, self._port = host, port
        self._waiting: deque[_Ask] = deque()
        self._idle: list[_Connection] = []
        self._connections: set[_Connection] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._refusals = 0
        self._hang_ups = 0
        self._not_before = 0.0
        self._last_failure = ""

    def __str__(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    @property
    def is_in_use(self) -> bool:
        """Whether there is a connection, or something waits for one."""
        return bool(self._connections or self._connecting or self._waiting)

    def take(self, ask: _Ask) -> None:
        """Send as soon as there is a connection."""
        while self._waiting and self._waiting[0].done:
            self._waiting.popleft()
        if self.owner.closed:
            ask.fail("this node is stopping")
        elif len(self._waiting) >= MAX_WAITING:
            ask.fail(f"{MAX_WAITING} requests to {self} are waiting already")
        else:
            self._waiting.append(ask)
            self._pump()

    def close(self) -> None:
        """Hang up and tell everybody."""
        for task in list(self._connecting):
            task.cancel()
        for connection in list(self._connections):
            connection.drop("this node is stopping")
        self._fail_waiting("this node is stopping")

    # -- what connections say ------------------------------------------------------------------

    def is_ready(self, connection: _Connection) -> None:
        """A connection can take a request."""
        if self._failures:
            log.info("%s is reached again", self)
        self._failures = 0
        if self._waiting or len(self._idle) < MAX_IDLE:
            self._idle.append(connection)
            self._pump()
        else:
            connection.drop("there are enough connections")

    def has_answered(self) -> None:
        """A request was answered as it should be: what was wrong with the peer is over."""
        if self._refusals or self._hang_ups > 1:
            log.info("%s answers as it should again", self)
        self._refusals = self._hang_ups = 0

    def has_misbehaved(self, reason: str) -> None:
        """A connection hangs up on the peer, which does not speak as it should."""
        level = logging.DEBUG if self._refusals else logging.WARNING
        log.log(level, "hanging up on %s: %s", self, reason)
        self._leave_alone(self._refusals)
        self._refusals += 1
        self._last_failure = f"{self} was hung up on: {reason}"

    def has_hung_up(self) -> None:
        """A new connection ended with its first request: again and again, that is no chance."""
        if self._hang_ups:
            if self._hang_ups == 1:
                log.info("%s hangs up when it is asked; it is asked less often now", self)
            self._leave_alone(self._hang_ups - 1)
            self._last_failure = f"{self} hung up when it was asked"
        self._hang_ups += 1

    def is_lost(self, connection: _Connection, reason: str, *, was_usable: bool) -> None:
        """A connection is gone; one that was never usable counts as an attempt that failed."""
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if not was_usable:
            self._note_failure(reason)
        elif not self.owner.closed:
            self._pump()

    # -- inside --------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Give waiting requests to idle connections, and make as many new ones as are missing."""
        while self._waiting and self._idle:
            ask = self._waiting.popleft()
            if not ask.done and self._idle[-1].send(ask):
                self._idle.pop()
        unready = len(self._connecting) + sum(not one.usable for one in self._connections)
        wanted = min(len(self._waiting) - unready, MAX_CONNECTIONS - self._count)
        if wanted <= 0 or self.owner.closed:
            return
        delay_s = self._not_before - self.owner.loop.time()
        if delay_s > 0:
            if not self._connections:
                self._fail_waiting(self._last_failure)
            return
        for _ in range(1 if self._failures else wanted):
            task = self.owner.loop.create_task(self._connect())
            self._connecting.add(task)
            task.add_done_callback(self._attempted)

    @property
    def _count(self) -> int:
        return len(self._connecting) + len(self._connections)

    def _attempted(self, task: asyncio.Task[None]) -> None:
        """An attempt is over: what was asked because of its failure has not seen that yet."""
        self._connecting.discard(task)
        self._pump()

    async def _connect(self) -> None:
        connection = _Connection(self)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self.owner.loop.create_connection(lambda: connection, self._host, self._port)
        except TimeoutError:
            self._note_failure(f"no connection within {CONNECT_TIMEOUT_S:.0f} s")
        except (OSError, ValueError) as error:  # ValueError: a host name that cannot be one
            self._note_failure(str(error), is_refused=isinstance(error, ConnectionRefusedError))

    def connected(self, connection: _Connection) -> None:
        """A connection is open, and not usable yet."""
        self._connections.add(connection)

    def _note_failure(self, reason: str, *, is_refused: bool = False) -> None:
        """The peer cannot be reached: whoever waits is told, and it is left alone for a while."""
        if self.owner.closed:
            return
        if not self._failures:
            log.info("%s cannot be reached: %s", self, reason)
        self._leave_alone(self._failures)
        self._failures += 1
        told = f"{self} cannot be reached: {reason}"
        self._last_failure = Refused(told) if is_refused else told
        self._fail_waiting(self._last_failure)

    def _leave_alone(self, attempts: int) -> None:
        """Make no connection for a while, after so many attempts in a row a longer one."""
        factor = min(1 << min(attempts, 30), BACKOFF_MAX_FACTOR)
        backoff_s = self.owner.backoff_s * factor * random.uniform(0.8, 1.2)
        self._not_before = self.owner.loop.time() + backoff_s

    def _fail_waiting(self, reason: str) -> None:
        waiting, self._waiting = self._waiting, deque()
        for ask in waiting:
            ask.fail(reason)


class _Connection(asyncio.Protocol):
    """One connection: first it learns the peer's versions, then it carries request by request."""

    def __init__(self, peer: _Peer) -> None:
        self.usable = False
        """Whether the peer's versions are known."""
        self._peer = peer
        self._versions: dict[int, tuple[int, int]] = {}
        self._transport: Any = None
        self._received = bytearray()
        self._correlation_id = 0
        self._expected: tuple[type[Message], int] | None = None
        self._ask: _Ask | None = None
        self._has_answered = False
        self._lost = False
        self._handshake_timer: asyncio.TimerHandle | None = None

    # -- what the event loop says --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the versions."""
        self._transport = transport
        self._peer.connected(self)
        if self._peer.owner.closed:
            self.drop("this node is stopping")
            return
        self._handshake_timer = self._peer.owner.loop.call_later(
            CONNECT_TIMEOUT_S, self.drop, f"no ApiVersions within {CONNECT_TIMEOUT_S:.0f} s"
        )
        self._ask_versions(API_VERSIONS_NEWEST)

    def data_received(self, data: bytes) -> None:
        """Take the response when it is whole."""
        self._received += data
        while not self._lost and len(self._received) >= 4:
            (size_bytes,) = _LENGTH.unpack_from(self._received)
            if not 4 <= size_bytes <= self._peer.owner.max_response_bytes:
                self._refuse(f"it announced a response of {size_bytes} bytes")
                return
            if len(self._received) < 4 + size_bytes:
                return
            frame = bytes(memoryview(self._received)[4 : 4 + size_bytes])
            del self._received[: 4 + size_bytes]
            self._take(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer is gone."""
        if self._ask is not None and not self._has_answered:
            self._peer.has_hung_up()
        self.drop("it hung up" if exc is None else str(exc))

    # -- what the peer says --------------------------------------------------------------------

    def send(self, ask: _Ask) -> bool:
        """Send in the newest version that both sides have; whether there is one.

        If not, the ask has failed, and the connection can take another.
        """
        assert self.usable and self._ask is None, "a connection takes one request at a time"
        request = ask.request
        key = request.api_key
        assert key is not None, "only requests are sent"
        theirs = self._versions.get(key)
        version = min(theirs[1], request.max_version) if theirs is not None else -1
        if theirs is None or version < max(theirs[0], request.min_version):
            name = type(request).__name__
            ask.fail(Unserved(f"{self._peer} does not serve {name} in a version of ours"))
            return False
        try:
            self._write(request, version)
        except WireError as error:
            ask.fail(Unserved(f"{self._peer}: {error}"))
            return False
        self._ask, ask.connection = ask, self
        return True

    def drop(self, reason: str) -> None:
        """Hang up; a request on its way has failed."""
        if self._lost:
            return
        self._lost = True
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        ask, self._ask = self._ask, None
        if ask is not None:
            ask.connection = None
            ask.fail(reason)
        self._peer.is_lost(self, reason, was_usable=self.usable)

    # -- inside --------------------------------------------------------------------------------

    def _write(self, request: Message, version: int) -> None:
        self._correlation_id = (self._correlation_id + 1) % CORRELATION_IDS
        parts = encode_request_parts(
            request, version, self._correlation_id, self._peer.owner.client_id
        )
        assert request.api_key is not None, "only requests are sent"
        self._expected = (api.response_class(request.api_key), version)
        self._transport.writelines(parts)

    def _take(self, frame: bytes) -> None:
        expected, self._expected = self._expected, None
        if expected is None:
            self._refuse("it sent what nobody had asked for")
            return
        cls, version = expected
        try:
            header, response = decode_response(
                cls, version, frame, max_elements=MAX_ELEMENTS, allow_trailing=True
            )
        except WireError as error:
            self._refuse(f"its {cls.__name__} v{version} cannot be read: {error}")
            return
        if header.correlation_id != self._correlation_id:
            self._refuse(f"it answered request {header.correlation_id}, not the one it was asked")
        elif self.usable:
            self._answered(response)
        else:
            assert isinstance(response, ApiVersionsResponse), "versions come first"
            self._take_versions(response, version)

    def _answered(self, response: Message) -> None:
        ask, self._ask = self._ask, None
        assert ask is not None, "a response that is expected has its request"
        ask.connection = None
        self._has_answered = True
        self._peer.has_answered()
        self._peer.is_ready(self)  # first: what the answer leads to may go the same way
        ask.answer(response)

    def _ask_versions(self, version: int) -> None:
        self._write(
            ApiVersionsRequest(
                client_software_name="fencepost", client_software_version=__version__
            ),
            version,
        )

    def _take_versions(self, response: ApiVersionsResponse, asked: int) -> None:
        ranges = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION and asked > 0:
            newest = ranges.get(ApiVersionsRequest.api_key or 0, (0, 0))[1]
            self._ask_versions(max(0, min(newest, asked - 1)))
        elif response.error_code:
            self._refuse(f"it refused ApiVersions: {error_name(response.error_code)}")
        else:
            assert self._handshake_timer is not None, "the handshake is timed"
            self._handshake_timer.cancel()
            self._versions = ranges
            self.usable = True
            self._peer.is_ready(self)

    def _refuse(self, reason: str) -> None:
        """The peer does not speak as it should."""
        self._peer.has_misbehaved(reason)
        self.drop(reason)


def _call(callback: Callable[[Any], None], value: Any) -> None:
    """Whatever goes wrong with one answer must not be in the way of the next."""
    try:
        callback(value)
    except Exception:
        log.exception("an answer could not be taken")
