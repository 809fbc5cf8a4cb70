"""The node's front door: bound sockets, the connections behind them, and their number.

Theory of operation
-------------------
Sockets are bound first and accept later, so that a port that is taken is found out before any data
is touched, and no client is served before the node is ready for it.

Connections beyond the limits are refused at once or wait with nothing read from them
(`connection_gate`); a log line tells of those refused now and then instead of one each. A
connection on which nothing happened for `connections.max.idle.ms` and that waits for no answer is
closed, and so is one whose client has left while nothing was read from it. `limits` may be replaced
at any time; connections that are open stay.

A connection takes a file descriptor, and so does every segment of a log that is open. So no more
connections stay than `file_limit` has a share for, on all listeners together. A connection has to
be accepted before it can be refused: so the backlog, which is how many are accepted at a time, is
no more than half of what is kept free of both.

Output that answers produce outside of a connection's own turn (group commit, long polls) is
collected and flushed once per turn of the event loop, so that answers that become known together
leave together. How much all connections do in one turn is the `turn`'s to say.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from fencepost.broker.config.endpoints import BindError, ConnectionLimits, Endpoint, bind
from fencepost.broker.config.file_limit import ConnectionCount
from fencepost.broker.net.client_quotas import NO_QUOTAS
from fencepost.broker.net.connection import Connection
from fencepost.broker.net.connection_gate import ConnectionGate, Refused
from fencepost.broker.net.disconnect_log import DisconnectLog
from fencepost.broker.net.listener_security import ListenerSecurity, SecurityOf
from fencepost.broker.net.memory_budget import MemoryBudget
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.received import SCRATCH_SIZE_BYTES
from fencepost.broker.net.registry import ROUTES, Routes
from fencepost.broker.net.request_metrics import RequestMetrics
from fencepost.broker.net.turn import Turn
from fencepost.log.configdef import ConfigError
from fencepost.machines.session import SessionRules
from fencepost.runtime.cooperative import Lane

if TYPE_CHECKING:
    from fencepost.broker.net.logins import Logins
    from fencepost.broker.net.tls_transport import TlsTransport, TlsTransports

log = logging.getLogger(__name__)

REFUSED_LOGGED_EVERY_S = 1.0
SWEEP_EVERY_S = 10.0
CLOSE_TIMEOUT_S = 2.0


class ConnectionCounts:
    """How many connections came to what, by the name of their listener."""

    def __init__(self) -> None:
        self.created: Counter[str] = Counter()
        """Were let in."""
        self.closed: Counter[str] = Counter()
        """Were let in, and have ended."""
        self.expired: Counter[str] = Counter()
        """Were closed for being idle (`connections.max.idle.ms`)."""
        self.refused: Counter[str] = Counter()
        """Were not let in: there were too many."""


class Listener:
    """Accepts connections for a node and keeps their number and idleness in check."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: ConnectionLimits,
        work: Lane,
        routes: Routes | None = None,
        count: ConnectionCount | None = None,
        left_free: int = 0,
    ) -> None:
        """Handlers that take long are worked on in the lane `work`. `count` is shared by all
        listeners of a node; `left_free` of it is for the others."""
        self.routes = Routes({}, ROUTES.__getitem__) if routes is None else routes
        """What is served, by API key; to be given before `start`."""
        self.loop = loop
        self.limits = limits
        self.count = ConnectionCount() if count is None else count
        self._left_free = left_free
        self.scratch = memoryview(bytearray(SCRATCH_SIZE_BYTES))
        self.connections: set[Connection] = set()
        self.memory_budget = MemoryBudget(
            loop, lambda: list(self.connections), limits.max_frame_bytes
        )
        self.turn = Turn(loop.call_soon)
        self._tls: TlsTransports | None = None
        self.disconnect_log = DisconnectLog()
        self._logins: Logins | None = None
        self.quotas = NO_QUOTAS
        """What requests are charged to; to be given before `start`."""
        self.on_disconnected: Callable[[Connection], None] = lambda connection: None
        """Called with every connection that was accepted, when it is gone."""
        self.before_others: Callable[[], None] = lambda: None
        """See `Host`: before a request of another API, what was collected takes effect."""
        self.after_read: Callable[[int], None] = lambda reader: None
        """Called when what has arrived on a connection, given by its `id`, has been handled."""
        self.counts = ConnectionCounts()
        self.new_context: Callable[..., PendingRequest] = PendingRequest
        """Makes the context of a request."""
        self.context_again: Callable[..., PendingRequest] = PendingRequest
        """The same for a request that was counted already."""
        self.request_metrics: RequestMetrics | None = None
        self.work = work
        self.broker_work = work.beside()
        self.gate = ConnectionGate(loop.time)
        """Which new connections may stay."""
        self.securities: dict[str, ListenerSecurity] = {}
        """How new connections are secured, by the name of their listener."""
        self.names: list[str] = []
        """Of the endpoints that were bound."""
        self._sockets: list[tuple[str, socket.socket]] = []
        self._servers: list[asyncio.AbstractServer] = []
        self._unflushed: dict[Connection, None] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._drained: asyncio.Event | None = None
        self._refused = 0
        self._refusal_logged_at = float("-inf")

    def bind(
        self, endpoints: list[Endpoint], security_of: SecurityOf | None = None
    ) -> list[Endpoint]:
        """Bind every endpoint and say where; nothing is accepted before `start`.

        BindError; ConfigError if a listener cannot be secured.
        Without `security_of` the listeners are PLAINTEXT.
        """
        bound: list[Endpoint] = []
        try:
            for endpoint in endpoints:
                sockets = bind(endpoint, self.limits)
                self._sockets += [(endpoint.name, sock) for sock in sockets]
                port = sockets[0].getsockname()[1]
                bound.append(Endpoint(endpoint.name, endpoint.host, port))
                self.names.append(endpoint.name)
                self.securities[endpoint.name] = (security_of or self._plaintext)(endpoint.name)
        except (BindError, ConfigError):
            self.close_sockets()
            raise
        return bound

    def _plaintext(self, name: str) -> ListenerSecurity:
        return ListenerSecurity(name, SessionRules(self.limits.max_frame_bytes))

    def watch(self) -> None:
        """Measure requests from now on; to be called before `start`."""
        self.request_metrics = metrics = RequestMetrics()
        self.new_context = metrics.new_context
        self.context_again = metrics.context_again

    async def start(
        self, early: Collection[str] = (), ready: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        """Accept connections: on the listeners that are `early` at once, on the others as soon as
        `ready` is."""
        if self.request_metrics is not None:
            self.routes = self.routes.each(self.request_metrics.watch)
        self._sweeper = self.loop.call_later(SWEEP_EVERY_S, self._sweep)
        if ready is not None:
            await self._accept(lambda name: name in early)
            if self._sockets:
                await ready()
        await self._accept(lambda name: True)

    async def _accept(self, is_due: Callable[[str], bool]) -> None:
        due = [one for one in self._sockets if is_due(one[0])]
        self._sockets = [one for one in self._sockets if one not in due]
        for name, sock in due:
            server = await self.loop.create_server(
                partial(self._connection, name),
                sock=sock,
                backlog=min(self.limits.backlog, self.count.backlog),
            )
            self._servers.append(server)

    def _connection(self, name: str) -> Connection | TlsTransport:
        security = self.securities[name]
        connection = Connection(self, security)
        if security.tls is None:
            return connection
        return self.tls.below(connection, security.tls)

    @property
    def tls(self) -> TlsTransports:
        """What is below connections with TLS."""
        if self._tls is None:
            # What a node without TLS never needs, its start can do without.
            from fencepost.broker.net.tls_transport import TlsTransports

            self._tls = TlsTransports(self.loop, self.memory_budget)
        return self._tls

    @property
    def logins(self) -> Logins:
        """What the logins of all connections have in common."""
        if self._logins is None:
            # What a node without logins never needs, its start can do without.
            from fencepost.broker.net.logins import Logins

            self._logins = Logins(self.loop)
        return self._logins

    @property
    def is_open(self) -> bool:
        """Whether clients may connect."""
        return bool(self._servers)

    def close_sockets(self) -> None:
        """Stop listening; connections stay."""
        for server in self._servers:
            server.close()
        for _, sock in self._sockets:
            sock.close()
        self._servers.clear()
        self._sockets.clear()

    async def close(self) -> None:
        """Stop listening and disconnect all clients, giving output a moment to leave."""
        self.close_sockets()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.memory_budget.close()
        if self._logins is not None:
            self._logins.close()
        for connection in list(self.connections):
            connection.disconnect()
        if self.connections:
            self._drained = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), CLOSE_TIMEOUT_S)
        for connection in list(self.connections):
            connection.abort()
        await asyncio.sleep(0)

    def connected(self, connection: Connection) -> bool:
        """Whether the connection may stay; counts it if so."""
        gate, count = self.gate, self.count
        try:
            gate.check(connection, self.limits)
            if count.open >= count.most - self._left_free:
                raise Refused(
                    f"{count.open} are open, which is what {count.limit} open files (ulimit -n)"
                    " allow"
                )
            hold_s = gate.hold_s(connection)
            wait_s = hold_s or gate.wait_s(connection, self.limits)
        except Refused as refused:
            self._refuse(connection, str(refused))
            return False
        count.open += 1
        self.counts.created[connection.listener_name] += 1
        self.connections.add(connection)
        gate.joined(connection)
        if wait_s > 0:
            connection.wait(wait_s)
        if hold_s > 0:
            self.loop.call_later(hold_s, self._end_hold, connection)
        elif connection.listener_name == gate.protected:
            self._make_room()
        return True

    def _end_hold(self, connection: Connection) -> None:
        """A connection that came too soon after others of its address is closed."""
        if not connection.closed:
            self._refuse(connection, "connection_creation_rate of its address is exceeded")
            connection.abort()

    def _make_room(self) -> None:
        """Close a connection of a client if brokers' connections made it one too many."""
        surplus = self.gate.one_too_many(self.connections, self.limits)
        if surplus is not None:
            most = self.limits.max_connections
            surplus.evict(f"max.connections={most} are exceeded by the brokers' listener")

    def disconnected(self, connection: Connection) -> None:
        """A counted connection is gone."""
        self.connections.discard(connection)
        self.on_disconnected(connection)
        self.count.open -= 1
        self.counts.closed[connection.listener_name] += 1
        self._unflushed.pop(connection, None)
        self.turn.forget(connection)
        if self._drained is not None and not self.connections:
            self._drained.set()
        self.gate.left(connection)

    def flush_soon(self, connection: Connection) -> None:
        """Write the connection's output at the end of this turn of the loop."""
        if not self._unflushed:
            self.loop.call_soon(self._flush_all)
        self._unflushed[connection] = None

    def _flush_all(self) -> None:
        unflushed, self._unflushed = self._unflushed, {}
        for connection in unflushed:
            if not connection.closed:
                connection.flush_answered()

    def _refuse(self, connection: Connection, why: str) -> None:
        self._refused += 1
        self.counts.refused[connection.listener_name] += 1
        now = self.loop.time()
        if now - self._refusal_logged_at >= REFUSED_LOGGED_EVERY_S:
            self._refusal_logged_at = now
            log.warning(
                "refused %d connection(s), the last from %s: %s", self._refused, connection, why
            )
            self._refused = 0

    def _sweep(self) -> None:
        now = self.loop.time()
        idle_s = self.limits.max_idle_ms / 1000
        for connection in list(self.connections):
            connection.sweep()
            quiet_s = now - connection.last_activity
            if connection.closed:
                if quiet_s > SWEEP_EVERY_S:  # it was disconnected and does not take its output
                    connection.abort()
            elif quiet_s > SWEEP_EVERY_S and _has_left(connection.unread_fd):
                connection.abort()
            elif 0 <= idle_s < quiet_s and connection.idle:
                self.counts.expired[connection.listener_name] += 1
                connection.close(f"idle for {quiet_s:.0f} s (connections.max.idle.ms)")
            elif 0 <= idle_s < quiet_s and _stalled_s(connection, now) > idle_s:
                connection.evict(f"took no answer for {idle_s:.0f} s (connections.max.idle.ms)")
        every_s = min(SWEEP_EVERY_S, max(0.05, idle_s / 2)) if idle_s >= 0 else SWEEP_EVERY_S
        self._sweeper = self.loop.call_later(every_s, self._sweep)


def _has_left(fd: int) -> bool:
    """Whether the client behind a socket that is not read from has closed it.

    The event loop tells of that when it reads; behind unread requests only the system knows.
    """
    if fd < 0 or not hasattr(select, "POLLRDHUP"):
        return False
    poll = select.poll()
    poll.register(fd, select.POLLRDHUP)
    return bool(poll.poll(0))


def _stalled_s(connection: Connection, now: float) -> float:
    """For how long there has been output that the client does not take."""
    since = connection.output_stalled_since
    return 0.0 if since is None else now - since
