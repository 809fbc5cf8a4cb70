"""One TCP connection to one broker: blocking and pipelined.

On opening it connects, wraps TLS, asks ApiVersions and authenticates; afterwards `send` writes a
request and returns a `Token`, `receive` returns that token's response. What is said, in which
frames and versions, is decided in `connection_core` and `protocol`; this module has the socket and
the deadlines.

Invariants: after any error other than an UnsupportedApi the connection is closed and every open
token is lost (the caller cannot know whether the broker carried those requests out). One thread at
a time.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar, cast

from fencepost.client.config import ClientConfig
from fencepost.client.connection_core import MAX_RESPONSE_BYTES, ConnectionCore, Opening
from fencepost.client.conversation import drive
from fencepost.client.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ProtocolError,
    RequestTimedOut,
)
from fencepost.client.protocol.framing import ReceiveBuffer
from fencepost.client.protocol.in_flight import Token, is_answered
from fencepost.client.protocol.negotiation import API_VERSIONS_NEWEST
from fencepost.client.retry import Deadline
from fencepost.client.security import Security, lost_connection
from fencepost.client.tokens import access_token
from fencepost.wire.api import api_name
from fencepost.wire.message import Message, Request

# Parts of one request written by one system call; the kernel's own limit is 1024.
PARTS_PER_WRITE = 256

R = TypeVar("R", bound=Message)


class HasFileno(Protocol):
    """A socket, or what has one."""

    def fileno(self) -> int:
        """Its file descriptor."""
        ...


def wait_readable(open_ones: Iterable[HasFileno], timeout_ms: float) -> bool:
    """Wait until one of these has something to read, or has ended; False if none did in that time.

    By poll(), since select() cannot name descriptors from 1,024 on, which large processes have.
    """
    poll = select.poll()
    for one in open_ones:
        poll.register(one, select.POLLIN)
    return bool(poll.poll(timeout_ms))


def wait_for_answers(connections: set[Connection], timeout_ms: float) -> set[Connection]:
    """Wait until one of these has something to receive, or has ended; those that have."""
    ready = {one for one in connections if one.holds_bytes}
    poll = select.poll()
    waiting = {one.fileno(): one for one in connections - ready}
    for descriptor in waiting:
        poll.register(descriptor, select.POLLIN)
    found = poll.poll(0 if ready else timeout_ms)
    return ready.union(waiting[descriptor] for descriptor, _ in found)


class Connection(ConnectionCore):
    """A negotiated connection to `host:port`; raises ConnectionFailed when it cannot be had."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str = "fencepost",
        timeout_ms: float = 30_000,
        *,
        connect_timeout_ms: float | None = None,
        security: Security | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        receive_buffer_bytes: int = -1,
        send_buffer_bytes: int = -1,
    ) -> None:
        super().__init__(host, port, client_id, security or Security(), max_response_bytes)
        self.timeout_ms = timeout_ms
        self._buffer_sizes = {
            socket.SO_RCVBUF: receive_buffer_bytes,
            socket.SO_SNDBUF: send_buffer_bytes,
        }
        self._socket: socket.socket | None = None
        self._early: dict[int, memoryview] = {}  # frames read while waiting for a later one
        self._abandoned: set[int] = set()
        deadline = Deadline(connect_timeout_ms if connect_timeout_ms is not None else timeout_ms)
        try:
            self._open(deadline)
            self._negotiate(deadline)
            self._converse(self.authentication(access_token(self.security)), deadline)
        except BaseException:
            self.close()
            raise

    @classmethod
    def configured(cls, config: ClientConfig, host: str, port: int) -> Connection:
        """A connection with the timeouts, buffers and security of `config`."""
        return cls(
            host,
            port,
            config.client_id,
            config.request_timeout_ms,
            connect_timeout_ms=config.connect_timeout_ms,
            security=config.security,
            receive_buffer_bytes=config.receive_buffer_bytes,
            send_buffer_bytes=config.send_buffer_bytes,
        )

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def request(
        self,
        message: Request[R],
        version: int | None = None,
        *,
        timeout_ms: float | None = None,
        highest: int | None = None,
    ) -> R:
        """Send `message`, wait for its response; the negotiated version unless one is given.

        Raises what `send` and `receive` raise.
        """
        return self.receive(self.send(message, version, highest=highest), timeout_ms=timeout_ms)

    def send(
        self,
        message: Request[R],
        version: int | None = None,
        *,
        highest: int | None = None,
        expect_response: bool = True,
    ) -> Token[R]:
        """Write a request without waiting, at the negotiated version unless one is given.

        Produce with acks=0 is never answered: it takes `expect_response=False`, and its token is
        not to be received; ValueError when the two disagree. UnsupportedApi, before anything is
        sent; see `agree`. A session that is about to end is renewed first, for which the answers
        to what is on its way are waited for; AuthenticationFailed, which closes the connection.
        """
        if is_answered(message) != expect_response:
            raise ValueError(
                f"{type(message).__name__}: expect_response is {expect_response}; "
                "Produce with acks=0 has no response, everything else has one"
            )
        assert message.api_key is not None, type(message).__name__
        version = self.agree(message, version, highest)
        sock = self._live()
        if self.is_expired:
            self._log_in_again()
        token, parts = self.frame(message, version)
        self._write(sock, parts, Deadline(self.timeout_ms), api_name(message.api_key))
        return token

    def receive(
        self,
        token: Token[R],
        *,
        timeout_ms: float | None = None,
        buffer: ReceiveBuffer | None = None,
    ) -> R:
        """The response to `token`, read into `buffer` if one is given.

        Raises RequestTimedOut (closing the connection), ConnectionFailed or ProtocolError.
        """
        deadline = Deadline(self.timeout_ms if timeout_ms is None else timeout_ms)
        return cast("R", self._receive(token, deadline, buffer))

    def receive_now(self, token: Token[R], buffer: ReceiveBuffer | None = None) -> R | None:
        """The response to `token` if it is here as a whole; reads what has come of it, waits for
        nothing. `buffer` is the same in every call, and nothing else is read into it until then.
        Raises as `receive`."""
        return self._receive(token, None, buffer)

    def _receive(
        self, token: Token[R], deadline: Deadline | None, buffer: ReceiveBuffer | None
    ) -> R | None:
        """The response; without a deadline None if it is not here yet."""
        frame = self._early.pop(token.correlation_id, None)
        try:
            while frame is None:
                if token not in self._in_flight:
                    raise ConnectionFailed(
                        "the request was lost with its connection", host=self.address
                    )
                is_mine = self._in_flight.oldest == token
                read = self._read_frame(deadline, buffer if is_mine else None)
                if read is None:
                    return None
                answered = self._in_flight.match(read)
                if is_mine:
                    frame = read
                elif answered.correlation_id in self._abandoned:
                    self._abandoned.remove(answered.correlation_id)
                else:
                    self._early[answered.correlation_id] = read
            return self._in_flight.decode(token, frame)
        except ProtocolError:
            self.close()
            raise

    def abandon(self, token: Token[Any]) -> None:
        """Say that `token` will not be received: its answer is thrown away when it comes."""
        if self._early.pop(token.correlation_id, None) is None and token in self._in_flight:
            self._abandoned.add(token.correlation_id)

    @property
    def holds_bytes(self) -> bool:
        """Whether a receive would find something that was taken from the socket, or the end."""
        if self._socket is None or self._early:
            return True
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def readable(self, timeout_ms: float = 0) -> bool:
        """Whether a receive would find at least the beginning of an answer, or an end."""
        return self.holds_bytes or wait_readable([self], timeout_ms)

    @property
    def was_closed(self) -> bool:
        """Whether the broker has closed the connection while nothing was asked, as it does with
        idle ones. Behind TLS only reading tells."""
        idle = len(self._in_flight) == 0 and not self._early
        if self._socket is None or not idle or isinstance(self._socket, ssl.SSLSocket):
            return False
        try:
            return self.readable() and not self._socket.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def fileno(self) -> int:
        """For select; raises ConnectionFailed when closed."""
        return self._live().fileno()

    def close(self) -> None:
        """Close the socket; tokens still open are lost."""
        self._in_flight.clear()
        self._early.clear()
        self._abandoned.clear()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- opening ---------------------------------------------------------------------------------

    def _open(self, deadline: Deadline) -> None:
        """Connect and wrap TLS; also used to start over after a refused negotiation."""
        self.close()
        self.start_over()
        try:
            plain = socket.create_connection(
                (self.host, self.port),
                timeout=max(0.001, deadline.remaining_ms() / 1000),
                all_errors=True,
            )
        except ExceptionGroup as group:  # one for each address of the host
            reasons = "; ".join(dict.fromkeys(map(str, group.exceptions)))
            raise ConnectionFailed(f"cannot connect: {reasons}", host=self.address) from group
        except (OSError, UnicodeError) as error:
            raise ConnectionFailed(f"cannot connect: {error}", host=self.address) from error
        self._socket = plain
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option, size in self._buffer_sizes.items():
            if size > 0:
                plain.setsockopt(socket.SOL_SOCKET, option, size)
        if not self.security.uses_tls:
            return
        try:
            context = self.security.tls_context()
            self._socket = context.wrap_socket(plain, server_hostname=self.host)
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationFailed(
                f"the broker's certificate is not trusted: {error.verify_message}",
                host=self.address,
            ) from error
        except OSError as error:
            raise lost_connection(error, f"TLS handshake failed: {error}", self.address) from error

    def _negotiate(self, deadline: Deadline) -> None:
        """Fill `api_versions`; a broker that breaks off is called again with version 0."""
        try:
            self._converse(self.negotiation(API_VERSIONS_NEWEST), deadline)
        except (ConnectionFailed, ProtocolError):
            self._open(deadline)
            self._converse(self.negotiation(0), deadline)

    def _log_in_again(self) -> None:
        """Renew the session. Answers that come meanwhile are kept until they are received."""
        try:
            token = access_token(self.security)
            self._converse(self.authentication(token), Deadline(self.timeout_ms))
        except BaseException:
            self.close()
            raise

    def _converse(self, requests: Opening, deadline: Deadline) -> None:
        drive(requests, lambda asked: self._receive(self.send(*asked), deadline, None))

    # -- bytes -----------------------------------------------------------------------------------

    def _live(self) -> socket.socket:
        if self._socket is None:
            raise ConnectionFailed("the connection is closed", host=self.address)
        return self._socket

    def _write(self, sock: socket.socket, parts: list[Any], deadline: Deadline, what: str) -> None:
        try:
            if isinstance(sock, ssl.SSLSocket):
                sock.settimeout(max(0.001, deadline.remaining_ms() / 1000))
                sock.sendall(b"".join(parts))
                return
            views = deque(memoryview(part).cast("B") for part in parts if len(part))
            while views:
                sock.settimeout(max(0.001, deadline.remaining_ms() / 1000))
                sent = sock.sendmsg([views[i] for i in range(min(len(views), PARTS_PER_WRITE))])
                while views and sent >= len(views[0]):
                    sent -= len(views.popleft())
                if sent:
                    views[0] = views[0][sent:]
        except TimeoutError as error:
            self.close()
            raise RequestTimedOut(
                f"{what} could not be sent within {deadline.timeout_ms:.0f} ms", host=self.address
            ) from error
        except OSError as error:
            self.close()
            raise lost_connection(error, f"sending {what}: {error}", self.address) from error

    def _read_frame(
        self, deadline: Deadline | None, buffer: ReceiveBuffer | None
    ) -> memoryview | None:
        """One frame without its length prefix; without a deadline None if it is not here yet."""
        sock = self._live()
        awaited = self._in_flight.oldest.response_class.__name__
        frame = None
        try:
            if deadline is None:
                sock.settimeout(0)
            while frame is None:
                if deadline is not None:
                    sock.settimeout(max(0.001, deadline.remaining_ms() / 1000))
                count = sock.recv_into(self._reader.get_buffer(buffer))
                if count == 0:
                    raise ConnectionResetError("the broker closed the connection")
                frame = self._reader.buffer_updated(count)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None  # there is no deadline: with one the socket waits by itself
        except TimeoutError as error:
            self.close()
            assert deadline is not None
            raise RequestTimedOut(
                f"no {awaited} within {deadline.timeout_ms:.0f} ms", host=self.address
            ) from error
        except OSError as error:
            self.close()
            hint = self.security.hint if not self.api_versions else ""
            text = f"waiting for {awaited}: {error}{hint}"
            raise lost_connection(error, text, self.address) from error
        return frame
