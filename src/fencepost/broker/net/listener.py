"""The node's front door: bound sockets, the connections behind them, and their number.

Theory of operation
-------------------
Sockets are bound first and accept later, so that a port that is taken is found out before any data
is touched, and no client is served before the node is ready for it.

Connections beyond `max.connections` and `max.connections.per.ip` are refused at once, with a log
line now and then instead of one each. Those beyond `max.connection.creation.rate` wait for their
turn with nothing read from them. A connection on which nothing happened for
`connections.max.idle.ms` and nobody waits for anything is closed, and so is one whose client has
left while nothing was read from it. `limits` may be replaced at any time; connections that are open
stay.

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
from collections.abc import Callable
from functools import partial

from fencepost.broker.config.endpoints import BindError, ConnectionLimits, Endpoint, bind
from fencepost.broker.config.file_limit import ConnectionCount
from fencepost.broker.net.connection import Connection
from fencepost.broker.net.disconnect_log import DisconnectLog
from fencepost.broker.net.listener_security import ListenerSecurity, SecurityOf
from fencepost.broker.net.logins import Logins
from fencepost.broker.net.memory_budget import MemoryBudget
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.received import SCRATCH_SIZE_BYTES
from fencepost.broker.net.registry import ROUTES, Routes
from fencepost.broker.net.request_metrics import RequestMetrics
from fencepost.broker.net.turn import Turn
from fencepost.log.configdef import ConfigError
from fencepost.machines.session import SessionRules
from fencepost.runtime.cooperative import Lane

log = logging.getLogger(__name__)

REFUSED_LOGGED_EVERY_S = 1.0
SWEEP_EVERY_S = 10.0
CLOSE_TIMEOUT_S = 2.0
CREATION_WAIT_MAX_S = 10.0


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
        self.disconnect_log = DisconnectLog()
        self.logins = Logins(loop)
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
        self._per_host: dict[str, int] = {}
        self.securities: dict[str, ListenerSecurity] = {}
        """How new connections are secured, by the name of their listener."""
        self.names: list[str] = []
        """Of the endpoints that were bound."""
        self._sockets: list[tuple[str, socket.socket]] = []
        self._servers: list[asyncio.AbstractServer] = []
        self._unflushed: dict[Connection, None] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._drained: asyncio.Event | None = None
        self._turn_at = float("-inf")
        self._refused = 0
        self._refusal_logged_at = float("-inf")

    def bind(
        self, endpoints: list[Endpoint], security_of: SecurityOf | None = None
    ) -> list[Endpoint]:
        """Bind every endpoint and say where; nothing is accepted before `start`. BindError,
        or what `security_of` raises.

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

    async def start(self) -> None:
        """Accept connections."""
        if self.request_metrics is not None:
            self.routes = self.routes.each(self.request_metrics.watch)
        for name, sock in self._sockets:
            server = await self.loop.create_server(
                partial(self._connection, name),
                sock=sock,
                backlog=min(self.limits.backlog, self.count.backlog),
            )
            self._servers.append(server)
        self._sockets.clear()
        self._sweeper = self.loop.call_later(SWEEP_EVERY_S, self._sweep)

    def _connection(self, name: str) -> Connection:
        return Connection(self, self.securities[name])

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
        """Stop listening and disconnect everybody, giving output a moment to leave."""
        self.close_sockets()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.memory_budget.close()
        self.logins.close()
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
        host = connection.client_host
        of_host = self._per_host.get(host, 0)
        if len(self.connections) >= self.limits.max_connections:
            self._refuse(connection, f"max.connections={self.limits.max_connections} are open")
            return False
        limit = self.limits.max_connections_of.get(host, self.limits.max_connections_per_ip)
        if of_host >= limit:
            self._refuse(connection, f"max.connections.per.ip={limit} are open")
            return False
        count = self.count
        if count.open >= count.most - self._left_free:
            why = f"{count.open} are open, which is what {count.limit} open files (ulimit -n) allow"
            self._refuse(connection, why)
            return False
        wait_s = self._wait_for_rate_s()
        if wait_s is None:
            rate = self.limits.max_created_per_s
            self._refuse(connection, f"max.connection.creation.rate={rate} is exceeded")
            return False
        if wait_s > 0:
            connection.wait(wait_s)
        count.open += 1
        self.counts.created[connection.listener_name] += 1
        self.connections.add(connection)
        self._per_host[host] = of_host + 1
        return True

    def _wait_for_rate_s(self) -> float | None:
        """How long a new connection has to wait for its turn; None if that were too long.

        A second's worth of connections may come at once.
        """
        rate, now = self.limits.max_created_per_s, self.loop.time()
        if rate == 0:
            return None
        turn_at = max(self._turn_at, now - 1) + 1 / rate
        if turn_at - now > CREATION_WAIT_MAX_S:
            return None
        self._turn_at = turn_at
        return max(0.0, turn_at - now)

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
        left = self._per_host.get(connection.client_host, 0) - 1
        if left > 0:
            self._per_host[connection.client_host] = left
        else:
            self._per_host.pop(connection.client_host, None)

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
