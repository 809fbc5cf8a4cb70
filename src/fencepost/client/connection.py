"""One TCP connection to one broker: blocking, pipelined, bounded, and checked.

On opening it connects, wraps TLS, asks ApiVersions and authenticates; afterwards `send` writes a
request and returns a `Token`, `receive` returns that token's response. Brokers answer in the order
of the requests, so every frame must carry the correlation id of the oldest request without an
answer; anything else means that the stream can no longer be trusted.

Negotiation (KIP-511): the highest ApiVersions version we want is tried first. A broker that does
not know it answers error 35 in the layout of version 0 and, if new enough, names its range; brokers
(and stand-ins) that break off instead are called again with version 0.

Invariants: a frame's length is checked against `max_response_bytes` before anything is allocated;
after any error other than an UnsupportedApi the connection is closed and every open token is lost
(the caller cannot know whether the broker carried those requests out). One thread at a time.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import time
from collections import deque
from typing import Any, Generic, NamedTuple, TypeVar, cast

from fencepost import __version__
from fencepost.client.errors import (
    AuthenticationFailed,
    BrokerError,
    ClientError,
    ConnectionFailed,
    ProtocolError,
    RequestTimedOut,
)
from fencepost.client.retry import Deadline
from fencepost.client.security import Security, sasl_exchange
from fencepost.client.versions import VersionRange, check_version, choose_version
from fencepost.wire.api import api_name, response_class
from fencepost.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from fencepost.wire.api.produce import ProduceRequest
from fencepost.wire.api.sasl_authenticate import SaslAuthenticateRequest
from fencepost.wire.api.sasl_handshake import SaslHandshakeRequest
from fencepost.wire.errors import ErrorCode, WireError
from fencepost.wire.frame import decode_response, encode_request_parts
from fencepost.wire.message import Message, Request

# 4 is the newest in released brokers; asking for 5 would cost every one of them a second try.
API_VERSIONS_HIGHEST = 4
MAX_RESPONSE_BYTES = 128 * 1024 * 1024
# Parts of one request written by one system call; the kernel's own limit is 1024.
PARTS_PER_WRITE = 256
IN_FLIGHT_MAX = 1024

_LENGTH = struct.Struct(">i")


R = TypeVar("R", bound=Message)


class Token(NamedTuple, Generic[R]):
    """One request on its way; give it to `Connection.receive`."""

    correlation_id: int
    response_class: type[R]
    version: int


class ReceiveBuffer:
    """Memory that many responses are received into, one after the other.

    What was decoded from it (record blobs are views of it) is overwritten by the next response.
    """

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = bytearray()

    def view(self, size_bytes: int) -> memoryview:
        """`size_bytes` writable bytes; grown, never shrunk."""
        if len(self._bytes) < size_bytes:
            # A new object: the old one may still be looked at through views.
            self._bytes = bytearray(max(size_bytes, 64 * 1024))
        return memoryview(self._bytes)[:size_bytes]


class Connection:
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
        self.host = host
        self.port = port
        self.client_id = client_id
        self.timeout_ms = timeout_ms
        self.max_response_bytes = max_response_bytes
        self.security = security or Security()
        self._buffer_sizes = {
            socket.SO_RCVBUF: receive_buffer_bytes,
            socket.SO_SNDBUF: send_buffer_bytes,
        }
        self._socket: socket.socket | None = None
        self._next_correlation_id = 0
        self._waiting: deque[Token[Any]] = deque()
        self._early: dict[int, memoryview] = {}  # frames read while waiting for a later one
        self._abandoned: set[int] = set()
        self.session_ends_at: float | None = None  # monotonic seconds, by KIP-368
        self.api_versions: dict[int, VersionRange] = {}
        deadline = Deadline(connect_timeout_ms if connect_timeout_ms is not None else timeout_ms)
        try:
            self._open(deadline)
            self._negotiate(deadline)
            if self.security.uses_sasl:
                self._authenticate(deadline)
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """ "host:port", as in error texts."""
        return f"{self.host}:{self.port}"

    @property
    def is_open(self) -> bool:
        expired = self.session_ends_at is not None and time.monotonic() >= self.session_ends_at
        return self._socket is not None and not expired

    @property
    def in_flight(self) -> int:
        """Requests sent whose answers have not been read from the socket."""
        return len(self._waiting)

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

    def version_for(
        self,
        request_class: type[Message],
        *,
        lowest: int | None = None,
        highest: int | None = None,
    ) -> int:
        """The version both ends speak; raises UnsupportedApi."""
        return choose_version(
            request_class, self.api_versions, lowest=lowest, highest=highest, host=self.address
        )

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
        sent, for a version that the broker does not have. ApiVersions alone may go out at any,
        since every broker answers it, with error 35 where it does not know the version (KIP-511).
        """
        if _is_answered(message) != expect_response:
            raise ValueError(
                f"{type(message).__name__}: expect_response is {expect_response}; "
                "Produce with acks=0 has no response, everything else has one"
            )
        assert message.api_key is not None, type(message).__name__
        if version is None:
            version = self.version_for(type(message), highest=highest)
        elif message.api_key != ApiVersionsRequest.api_key:
            check_version(type(message), self.api_versions, version, host=self.address)
        if len(self._waiting) >= IN_FLIGHT_MAX:
            raise ClientError(f"more than {IN_FLIGHT_MAX} requests in flight", host=self.address)
        answer = cast("type[R]", response_class(message.api_key))
        token = Token(self._next_correlation_id, answer, version)
        parts = encode_request_parts(message, version, token.correlation_id, self.client_id)
        self._next_correlation_id = (self._next_correlation_id + 1) & 0x7FFFFFFF
        self._write(parts, Deadline(self.timeout_ms), api_name(message.api_key))
        if expect_response:
            self._waiting.append(token)
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
        frame = self._early.pop(token.correlation_id, None)
        while frame is None:
            if token not in self._waiting:
                raise ConnectionFailed(
                    "the request was lost with its connection", host=self.address
                )
            oldest = self._waiting[0]
            is_mine = oldest.correlation_id == token.correlation_id
            read = self._read_frame(deadline, buffer if is_mine else None, oldest)
            self._waiting.popleft()
            if is_mine:
                frame = read
            elif oldest.correlation_id in self._abandoned:
                self._abandoned.remove(oldest.correlation_id)
            else:
                self._early[oldest.correlation_id] = read
        try:
            _, response = decode_response(
                token.response_class, token.version, frame, allow_trailing=True
            )
        except WireError as error:
            self.close()
            name = token.response_class.__name__
            raise ProtocolError(
                f"cannot read {name} version {token.version}: {error}", host=self.address
            ) from error
        return response

    def abandon(self, token: Token[Any]) -> None:
        """Say that nobody will receive `token`: its answer is thrown away when it comes."""
        if self._early.pop(token.correlation_id, None) is None and token in self._waiting:
            self._abandoned.add(token.correlation_id)

    def readable(self, timeout_ms: float = 0) -> bool:
        """Whether a receive would find at least the beginning of an answer, or an end."""
        if self._socket is None or self._early:
            return True
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        ready, _, _ = select.select([self._socket], [], [], timeout_ms / 1000)
        return bool(ready)

    def fileno(self) -> int:
        """For select; raises ConnectionFailed when closed."""
        return self._live().fileno()

    def close(self) -> None:
        """Close the socket; tokens still open are lost."""
        self._waiting.clear()
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
        try:
            plain = socket.create_connection(
                (self.host, self.port), timeout=max(0.001, deadline.remaining_ms() / 1000)
            )
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
            raise ConnectionFailed(f"TLS handshake failed: {error}", host=self.address) from error

    def _negotiate(self, deadline: Deadline) -> None:
        """Fill `api_versions`, falling back to older ApiVersions versions as needed."""
        try:
            response = self._ask_versions(API_VERSIONS_HIGHEST, deadline)
            if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
                response = self._ask_versions(_named_version(response), deadline)
        except (ConnectionFailed, ProtocolError):
            self._open(deadline)
            response = self._ask_versions(0, deadline)
        if response.error_code != ErrorCode.NONE:
            raise BrokerError.of(response.error_code, "ApiVersions was refused", host=self.address)
        self.api_versions = {
            entry.api_key: VersionRange(entry.min_version, entry.max_version)
            for entry in response.api_keys
        }

    def _ask_versions(self, version: int, deadline: Deadline) -> ApiVersionsResponse:
        request = ApiVersionsRequest(
            client_software_name="fencepost", client_software_version=__version__
        )
        token = self.send(request, version)
        frame = self._read_frame(deadline, None, token)
        self._waiting.popleft()
        try:
            _, response = decode_response(ApiVersionsResponse, version, frame, allow_trailing=True)
        except WireError as error:
            raise ProtocolError(
                f"cannot read ApiVersionsResponse version {version}: {error}", host=self.address
            ) from error
        return response

    def _authenticate(self, deadline: Deadline) -> None:
        """SaslHandshake version 1, then one SaslAuthenticate per client message."""
        mechanism = self.security.mechanism
        shaken = self.request(
            SaslHandshakeRequest(mechanism=mechanism), 1, timeout_ms=deadline.remaining_ms()
        )
        if shaken.error_code != ErrorCode.NONE:
            raise AuthenticationFailed(
                f"SASL {mechanism} is not among the broker's mechanisms {shaken.mechanisms}",
                host=self.address,
                code=shaken.error_code,
            )
        exchange = sasl_exchange(self.security)
        message = exchange.first()
        while True:
            was_last = exchange.done
            answer = self.request(
                SaslAuthenticateRequest(auth_bytes=message), timeout_ms=deadline.remaining_ms()
            )
            if answer.error_code != ErrorCode.NONE:
                raise AuthenticationFailed(
                    answer.error_message or "the broker refused the credentials",
                    host=self.address,
                    code=answer.error_code,
                )
            if was_last:
                exchange.finish(bytes(answer.auth_bytes))
                break
            message = exchange.next(bytes(answer.auth_bytes))
        if answer.session_lifetime_ms > 0:
            # Replaced at nine tenths of its life, before the broker closes it.
            self.session_ends_at = time.monotonic() + answer.session_lifetime_ms * 0.9 / 1000

    # -- bytes -----------------------------------------------------------------------------------

    def _live(self) -> socket.socket:
        if self._socket is None:
            raise ConnectionFailed("the connection is closed", host=self.address)
        return self._socket

    def _write(self, parts: list[Any], deadline: Deadline, what: str) -> None:
        sock = self._live()
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
            raise ConnectionFailed(f"sending {what}: {error}", host=self.address) from error

    def _read_frame(
        self, deadline: Deadline, buffer: ReceiveBuffer | None, expected: Token[Any]
    ) -> memoryview:
        """One frame without its length prefix, its correlation id checked against `expected`."""
        head = memoryview(bytearray(4))
        self._read_into(head, deadline, expected)
        (size_bytes,) = _LENGTH.unpack(head)
        if not 4 <= size_bytes <= self.max_response_bytes:
            self.close()
            raise ProtocolError(
                f"announced a response of {size_bytes} bytes; "
                f"allowed are 4 to {self.max_response_bytes}",
                host=self.address,
            )
        frame = buffer.view(size_bytes) if buffer else memoryview(bytearray(size_bytes))
        self._read_into(frame, deadline, expected)
        (correlation_id,) = _LENGTH.unpack_from(frame)
        if correlation_id != expected.correlation_id:
            self.close()
            raise ProtocolError(
                f"answered correlation id {correlation_id} where {expected.correlation_id} was due",
                host=self.address,
            )
        return frame

    def _read_into(self, target: memoryview, deadline: Deadline, expected: Token[Any]) -> None:
        sock = self._live()
        done = 0
        try:
            while done < len(target):
                sock.settimeout(max(0.001, deadline.remaining_ms() / 1000))
                count = sock.recv_into(target[done:])
                if count == 0:
                    raise ConnectionResetError("the broker closed the connection")
                done += count
        except TimeoutError as error:
            self.close()
            raise RequestTimedOut(
                f"no {expected.response_class.__name__} within {deadline.timeout_ms:.0f} ms",
                host=self.address,
            ) from error
        except OSError as error:
            self.close()
            raise ConnectionFailed(
                f"waiting for {expected.response_class.__name__}: {error}", host=self.address
            ) from error


def _is_answered(request: Message) -> bool:
    return not (isinstance(request, ProduceRequest) and request.acks == 0)


def _named_version(refusal: ApiVersionsResponse) -> int:
    """The highest ApiVersions version that a refusing broker says it has, else 0."""
    for entry in refusal.api_keys:
        if entry.api_key == ApiVersionsRequest.api_key:
            return max(0, min(entry.max_version, API_VERSIONS_HIGHEST))
    return 0
