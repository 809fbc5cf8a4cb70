"""A small HTTP server for a few fixed paths, in the node's own event loop.

Theory of operation
-------------------
It answers GET and HEAD, one request per connection, with `Connection: close`: of a request nothing
counts but its first line and `Host`, so what else a client sends cannot confuse it. An answer is
given at once or later, by the handler of the path.

`Host` must be an address, `localhost`, or one of the node's `names`, or be missing, as no browser
has it. A page on the Web may have its own name resolve to this machine (DNS rebinding); the
browser then sends that name, and would let the page read the answer.

Clients can take little: `CONNECTIONS_MAX` connections, `REQUEST_BYTES_MAX` bytes of each, and
`REQUEST_TIMEOUT_S` to send them. A client that connects when all connections are taken gets the
place of the one that has been sending its request for longest, so slow clients do not keep a quick
one out. Those that wait for an answer, or take one, keep their places, for `ANSWER_TIMEOUT_S` each.

Nothing here waits or works long, and it runs in the event loop on purpose: an answer says that the
loop goes round.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple, cast

from fencepost.broker.config.endpoints import ConnectionLimits, Endpoint, bind

log = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 16
REQUEST_BYTES_MAX: Final = 8 * 1024
"""The first line and all headers of a request."""
REQUEST_TIMEOUT_S: Final = 5.0
"""How long a client may take to send its request."""
ANSWER_TIMEOUT_S: Final = 30.0
"""How long an answer may take to be made, and again to be taken."""
TEXT: Final = "text/plain; charset=utf-8"
WRITTEN_PER_TURN_BYTES: Final = 1024 * 1024
"""Of an answer, until others have had their turn."""
_BACKLOG: Final = 16
_ENDS: Final = (b"\r\n\r\n", b"\n\n")


class Answer(NamedTuple):
    """What a path answers."""

    status: HTTPStatus
    body: Sequence[bytes]
    """In parts: a long one is not put together, and leaves part by part."""
    content_type: str = TEXT


Respond = Callable[[Answer], None]
"""Takes the answer to one request, once."""
Handler = Callable[[Respond], None]
"""Has a path's answer made."""


class HttpServer:
    """See the module. `handlers` are by path."""

    def __init__(self, loop: asyncio.AbstractEventLoop, handlers: Mapping[str, Handler]) -> None:
        self.loop = loop
        self.handlers = handlers
        self.names: frozenset[str] = frozenset()
        """What this node is called, in lower case, besides `localhost` and addresses."""
        self._open: dict[_Connection, None] = {}  # in the order in which they came
        self._servers: list[asyncio.AbstractServer] = []

    def __len__(self) -> int:
        return len(self._open)

    async def start(self, endpoint: Endpoint) -> Endpoint:
        """Listen; where, should the port have been 0. BindError."""
        limits = ConnectionLimits(REQUEST_BYTES_MAX, CONNECTIONS_MAX, CONNECTIONS_MAX, -1, _BACKLOG)
        sockets = bind(endpoint, limits)
        port = sockets[0].getsockname()[1]
        for sock in sockets:
            server = await self.loop.create_server(
                lambda: _Connection(self), sock=sock, backlog=_BACKLOG
            )
            self._servers.append(server)
        return Endpoint(endpoint.name, endpoint.host, port)

    def close(self) -> None:
        """Stop listening, and disconnect all clients."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for connection in list(self._open):
            connection.abort()

    def connected(self, connection: _Connection) -> bool:
        """Whether the connection may stay; one that sends slowly may have to go for it."""
        if len(self._open) >= CONNECTIONS_MAX:
            slowest = next((one for one in self._open if not one.has_asked), None)
            if slowest is None:
                return False
            slowest.abort()
            self.disconnected(slowest)
        self._open[connection] = None
        return True

    def disconnected(self, connection: _Connection) -> None:
        """The connection is gone, or as good as gone."""
        self._open.pop(connection, None)


class _Connection(asyncio.Protocol):
    """One client's connection: one request, one answer."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._is_head = False
        self._body: deque[bytes] = deque()
        self._is_paused = False
        self.has_asked = False
        """Whether its request is here."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        if self._server.connected(self):
            self._abort_after(REQUEST_TIMEOUT_S)
        else:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        self._server.disconnected(self)

    def eof_received(self) -> bool:
        """The client sends no more; it may still take an answer."""
        return self.has_asked

    def data_received(self, data: bytes) -> None:
        """Bytes of the request; what comes behind it is passed over."""
        if self.has_asked:  # it is told so already
            return
        received = self._received
        received += data
        if any(end in received for end in _ENDS):
            self._asked(bytes(received))
        elif len(received) > REQUEST_BYTES_MAX:
            self.has_asked = True
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def abort(self) -> None:
        """Disconnect at once."""
        if self._transport is not None:
            self._transport.abort()

    def _asked(self, received: bytes) -> None:
        """The request is here: have it answered."""
        self.has_asked = True
        self._received.clear()
        self._abort_after(ANSWER_TIMEOUT_S)
        assert self._transport is not None, "it has just received something"
        self._transport.pause_reading()
        first_line, *headers = received.replace(b"\r\n", b"\n").split(b"\n")
        words = first_line.decode("latin-1").split(" ")
        hosts = _hosts(headers)
        if len(words) != 3 or not words[2].startswith("HTTP/1.") or len(hosts) > 1:
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        if not all(is_known_host(host, self._server.names) for host in hosts):
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST)
            return
        method, target, _ = words
        if method not in ("GET", "HEAD"):
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED)
            return
        self._is_head = method == "HEAD"
        handler = self._server.handlers.get(target.partition("?")[0])
        if handler is None:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        try:
            handler(self._respond)
        except Exception:
            log.exception("answering %s failed", target.partition("?")[0])
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _refuse(self, status: HTTPStatus) -> None:
        self._respond(Answer(status, (f"{status.value} {status.phrase}\n".encode(),)))

    def _respond(self, answer: Answer) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        head = [
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
            f"Content-Type: {answer.content_type}",
            f"Content-Length: {sum(map(len, answer.body))}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        ]
        if answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
            head.append("Allow: GET, HEAD")
        self._transport.write("\r\n".join([*head, "", ""]).encode("ascii"))
        if not self._is_head:
            self._body.extend(answer.body)
        self._abort_after(ANSWER_TIMEOUT_S)
        self._write()

    def pause_writing(self) -> None:
        """The client does not take more for now."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """The client has taken what was written."""
        self._is_paused = False
        # Not now: asyncio's transports are not to be closed while they write.
        self._server.loop.call_soon(self._write)

    def _write(self) -> None:
        """Write what the client takes, and then disconnect."""
        written_bytes = 0
        while self._transport is not None and not self._is_paused:
            if not self._body:
                self._transport.close()  # once all of it is taken
                return
            if written_bytes > WRITTEN_PER_TURN_BYTES:
                self._server.loop.call_soon(self._write)
                return
            part = self._body.popleft()
            written_bytes += len(part)
            self._transport.write(part)

    def _abort_after(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._server.loop.call_later(delay_s, self.abort)


def _hosts(headers: Sequence[bytes]) -> list[str]:
    """What `Host` says, once for each time that it comes before the headers end."""
    found = []
    for line in headers:
        if not line:
            break
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"host":
            found.append(value.strip().decode("latin-1").lower())
    return found


def is_known_host(host: str, names: Collection[str]) -> bool:
    """Whether a value of `Host`, with or without a port, is of a node with these names."""
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            return False
        port = port[1:]
    else:
        name, _, port = host.partition(":")
    if port and not (port.isascii() and port.isdigit()):
        return False
    try:
        return isinstance(ip_address(name), IPv6Address) == host.startswith("[")
    except ValueError:
        known = name.removesuffix(".")
        return not host.startswith("[") and (known == "localhost" or known in names)
