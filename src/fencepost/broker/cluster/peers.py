"""Requests to other nodes: connections that are made when needed, used again, and bounded.

Theory of operation
-------------------
`Peers.send` takes a request and where it goes, and later calls back once: with the response, or
with the reason why there is none. Losing a request is allowed, answering twice is not. Nothing here
retries; the caller knows whether that makes sense.

A connection carries one request at a time, because some are held back by their receiver for half a
second (Fetch) and nothing must wait behind them. Another request to the same peer takes a
connection that is idle, or a new one, up to `MAX_CONNECTIONS`; beyond that it waits, up to
`MAX_WAITING`. Requests of different purposes (the quorum's, those to the controller) do not share
connections, so that none of them can be in the way of another.

A new connection asks for ApiVersions first, logs in where the other nodes' listener wants that, and
every request goes in the newest version that both
sides have (`peer_connection`). A peer that cannot be reached is not tried again for a while, longer
with every failure; what is sent meanwhile fails at once, so that a caller that can ask another node
does. A peer that answers what cannot be read, or out of turn, is disconnected and not tried again
likewise, with one log line until it has answered as it should; so is one that closes new
connections, over and over, when it is asked. One that does not let this node in is not tried again
for a while, either.

All peers of one `Peers` are reached at listeners of one name, which have one `Security`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fencepost.addresses import address_text
from fencepost.broker.cluster.peer_connection import (
    CONNECT_TIMEOUT_S,
    OnFailure,
    OnResponse,
    PeerConnection,
    PeerRequest,
)
from fencepost.client.errors import ClientError
from fencepost.client.protocol.versions import KeyedApi, VersionRange
from fencepost.log.configdef import ConfigError
from fencepost.machines.backoff import backoff_ms
from fencepost.wire.message import Message

if TYPE_CHECKING:
    from fencepost.client.security import Security

log = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 4
"""To one peer, for one purpose."""
MAX_WAITING: Final = 1_000
"""Requests to one peer, for one purpose, that no connection has taken yet."""
MAX_IDLE: Final = 2
"""Connections to one peer, for one purpose, that are kept for the next request."""
MAX_PEERS: Final = 1_000
"""Addresses that are remembered; addresses come from other nodes, and may be any."""
BACKOFF_MAX_FACTOR: Final = 32
"""The longest pause between attempts, as a multiple of the first."""

Address = tuple[str, int]
"""Host name or IP address, and TCP port."""


class ConnectionRefused(str):
    """The reason of a failure, where the host answered that nothing listens at the port."""

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
        security: Callable[[], Security | None] = lambda: None,
    ) -> None:
        """`security` says how the next connection is secured; None for not at all. It may read
        files."""
        self.loop = loop
        self.security = security
        self.client_id = client_id
        self.max_response_bytes = max_response_bytes
        self.backoff_ms = max(1, backoff_ms)
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
        keyed: KeyedApi | None = None,
        versions: VersionRange | None = None,
    ) -> PeerRequest:
        """Ask the node at `address`; one of the two is called, never before this returns.

        The request that is given back may be cancelled.

        `keyed` is for a request whose class has no API key, `versions` for one that not every
        version of its class can say.
        """
        host, port = address
        peer = self._peers.get((host, port, purpose))
        if peer is None:
            if len(self._peers) >= MAX_PEERS:
                self._peers = {key: one for key, one in self._peers.items() if one.is_in_use}
            peer = self._peers[host, port, purpose] = _Peer(self, host, port)
        asked = PeerRequest(
            self.loop, request, on_response, on_failure, timeout_ms, keyed, versions
        )
        peer.take(asked)
        return asked

    def __len__(self) -> int:
        return len(self._peers)

    def close(self) -> None:
        """Disconnect from all nodes; requests that wait fail."""
        self.closed = True
        for peer in list(self._peers.values()):
            peer.close()
        self._peers.clear()


class _Peer:
    """The connections to one address for one purpose, and what waits for them."""

    def __init__(self, owner: Peers, host: str, port: int) -> None:
        self.owner = owner
        self._host, self._port = host, port
        self._waiting: deque[PeerRequest] = deque()
        self._idle: list[PeerConnection] = []
        self._connections: set[PeerConnection] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._logging_in: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._protocol_errors = 0
        self._refusals = 0
        self._closed_unanswered = 0
        self._not_before = 0.0
        self._last_failure = ""

    def __str__(self) -> str:
        return address_text(self._host, self._port)

    @property
    def is_in_use(self) -> bool:
        """Whether there is a connection, or something waits for one."""
        return bool(self._connections or self._connecting or self._waiting)

    def take(self, request: PeerRequest) -> None:
        """Send as soon as there is a connection."""
        while self._waiting and self._waiting[0].done:
            self._waiting.popleft()
        if self.owner.closed:
            request.fail("this node is stopping")
        elif len(self._waiting) >= MAX_WAITING:
            request.fail(f"{MAX_WAITING} requests to {self} are waiting already")
        else:
            self._waiting.append(request)
            self._pump()

    def close(self) -> None:
        """Disconnect, and fail all requests."""
        for task in [*self._connecting, *self._logging_in]:
            task.cancel()
        for connection in list(self._connections):
            connection.drop("this node is stopping")
        self._fail_waiting("this node is stopping")

    # -- what connections say ------------------------------------------------------------------

    def on_connected(self, connection: PeerConnection) -> None:
        """A connection is open, and not usable yet."""
        self._connections.add(connection)
        if self.owner.closed:
            connection.drop("this node is stopping")

    def on_ready(self, connection: PeerConnection) -> None:
        """A connection can take a request."""
        if self._failures:
            log.info("reconnected to %s", self)
        self._failures = self._refusals = 0
        if self._waiting or len(self._idle) < MAX_IDLE:
            self._idle.append(connection)
            self._pump()
        else:
            connection.drop("there are enough connections")

    def on_session_ending(self, connection: PeerConnection) -> None:
        """A connection has to log in again, and takes no request until it has."""
        if connection in self._idle:
            self._idle.remove(connection)
        task = self.owner.loop.create_task(self._log_in_again(connection))
        self._logging_in.add(task)
        task.add_done_callback(self._logging_in.discard)

    def on_login_refused(self, reason: str) -> None:
        """The peer does not let this node in."""
        level = logging.DEBUG if self._refusals else logging.WARNING
        log.log(level, "%s refuses the login of this node: %s", self, reason)
        self._refusals += 1
        self._failures = max(self._failures, self._refusals)

    def on_answered(self) -> None:
        """A request was answered as it should be: what was wrong with the peer is over."""
        if self._protocol_errors or self._closed_unanswered > 1:
            log.info("%s sends valid responses again", self)
        self._protocol_errors = self._closed_unanswered = 0

    def on_protocol_error(self, reason: str) -> None:
        """A connection disconnects from the peer, which does not keep to the protocol."""
        level = logging.DEBUG if self._protocol_errors else logging.WARNING
        log.log(level, "disconnecting from %s: %s", self, reason)
        self._back_off(self._protocol_errors)
        self._protocol_errors += 1
        self._last_failure = f"{self} was disconnected: {reason}"

    def on_closed_unanswered(self) -> None:
        """A new connection was closed at its first request: once can be chance, twice is not."""
        if self._closed_unanswered:
            if self._closed_unanswered == 1:
                log.info(
                    "%s closes its connections at the first request; reconnecting less often", self
                )
            self._back_off(self._closed_unanswered - 1)
            self._last_failure = f"{self} closed the connection when it was asked"
        self._closed_unanswered += 1

    def on_lost(self, connection: PeerConnection, reason: str) -> None:
        """A connection is gone; one that was never usable counts as an attempt that failed."""
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if not connection.usable:
            self._note_failure(reason)
        elif not self.owner.closed:
            self._pump()

    # -- inside --------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Give waiting requests to idle connections, and make as many new ones as are missing."""
        while self._waiting and self._idle:
            if self._idle[-1].end_session_if_due():  # which takes it out of the idle ones
                continue
            request = self._waiting.popleft()
            if not request.done and self._idle[-1].send(request):
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
        owner = self.owner
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                security = owner.security()
                connection = PeerConnection(
                    self,
                    owner.loop,
                    owner.client_id,
                    owner.max_response_bytes,
                    security,
                    await self._access_token(security),
                )
                tls = security.tls_context() if security and security.uses_tls else None
                await owner.loop.create_connection(
                    lambda: connection, self._host, self._port, ssl=tls
                )
        except TimeoutError:
            self._note_failure(f"no connection within {CONNECT_TIMEOUT_S:.0f} s")
        except ConfigError as error:
            self._note_failure(str(error), "is not connected to, by this node's own configuration")
        except (OSError, ValueError, ClientError) as error:
            # ValueError: a host name that cannot be one.
            self._note_failure(str(error), is_refused=isinstance(error, ConnectionRefusedError))

    async def _log_in_again(self, connection: PeerConnection) -> None:
        try:
            token = await self._access_token(connection.security)
        except ClientError as error:
            connection.drop(f"there is no access token: {error}")
        else:
            connection.log_in_again(token)

    async def _access_token(self, security: Security | None) -> str | None:
        """What OAUTHBEARER logs in with; None for other mechanisms. ClientError."""
        if security is None or not security.uses_sasl or security.username is not None:
            return None
        from fencepost.client.tokens import access_token

        return await self.owner.loop.run_in_executor(None, access_token, security)

    def _note_failure(
        self, reason: str, what: str = "cannot be reached", *, is_refused: bool = False
    ) -> None:
        """The peer cannot be reached: requests that wait fail, and it is not tried for a while."""
        if self.owner.closed:
            return
        if not self._failures:
            log.info("%s %s: %s", self, what, reason)
        self._back_off(self._failures)
        self._failures += 1
        told = f"{self} {what}: {reason}"
        self._last_failure = ConnectionRefused(told) if is_refused else told
        self._fail_waiting(self._last_failure)

    def _back_off(self, attempts: int) -> None:
        """Make no connection for a while, after so many attempts in a row a longer one."""
        first_ms = self.owner.backoff_ms
        pause_ms = backoff_ms(attempts, first_ms, BACKOFF_MAX_FACTOR * first_ms, random.random())
        self._not_before = self.owner.loop.time() + pause_ms / 1000

    def _fail_waiting(self, reason: str) -> None:
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            request.fail(reason)
