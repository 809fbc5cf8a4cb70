"""One TCP connection to one broker on an event loop: negotiated, authenticated, pipelined.

The asyncio face of `client.connection_core`. After any failure the connection is closed, and every
request on its way fails with it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from fencepost.client.aio.driving import drive
from fencepost.client.config import ClientConfig
from fencepost.client.connection_core import MAX_RESPONSE_BYTES, ConnectionCore, Opening
from fencepost.client.errors import (
    AuthenticationFailed,
    ClientError,
    ConnectionFailed,
    ProtocolError,
    RequestTimedOut,
)
from fencepost.client.protocol.in_flight import is_answered
from fencepost.client.protocol.negotiation import API_VERSIONS_NEWEST
from fencepost.client.protocol.oauthbearer import MECHANISM as OAUTHBEARER
from fencepost.client.security import lost_connection
from fencepost.client.tokens import access_token
from fencepost.wire.errors import WireError
from fencepost.wire.message import Message, Request

R = TypeVar("R", bound=Message)


class AsyncConnection(ConnectionCore, asyncio.Protocol):
    """A connection; `open` makes one. `send` writes at once and returns the answer's future."""

    def __init__(self, config: ClientConfig, host: str, port: int) -> None:
        super().__init__(host, port, config.client_id, config.security, MAX_RESPONSE_BYTES)
        self._request_timeout_ms = config.request_timeout_ms
        self._futures: deque[asyncio.Future[Any]] = deque()
        self._transport: asyncio.Transport | None = None
        self._received_at = 0.0  # when bytes came last, by the event loop's clock
        # Requests that wait until the session is renewed; None: it needs not be.
        self._held: list[tuple[Request[Any], int, asyncio.Future[Any]]] | None = None
        self._renewal: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, config: ClientConfig, host: str, port: int) -> AsyncConnection:
        """Connect, negotiate, authenticate. ConnectionFailed and so on, as `Connection`."""
        try:
            async with asyncio.timeout(config.connect_timeout_ms / 1000):
                try:
                    return await cls._opened(config, host, port, API_VERSIONS_NEWEST)
                except (ConnectionFailed, ProtocolError):
                    return await cls._opened(config, host, port, 0)
        except TimeoutError as error:
            raise ConnectionFailed(
                f"no connection within {config.connect_timeout_ms} ms", host=f"{host}:{port}"
            ) from error

    @classmethod
    async def _opened(
        cls, config: ClientConfig, host: str, port: int, first_version: int
    ) -> AsyncConnection:
        connection = cls(config, host, port)
        await connection._connect()
        try:
            await connection._converse(connection.negotiation(first_version))
            await connection._authenticate(connection.request)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _authenticate(self, request: Callable[..., Awaitable[Any]]) -> None:
        security = self.security
        uses_tokens = security.uses_sasl and security.mechanism == OAUTHBEARER
        token = await asyncio.to_thread(access_token, security) if uses_tokens else None
        await drive(self.authentication(token), lambda asked: request(*asked))

    async def _connect(self) -> None:
        tls = self.security.tls_context() if self.security.uses_tls else None
        name = self.host if tls else None
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: self, self.host, self.port, ssl=tls, server_hostname=name
            )
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationFailed(
                f"the broker's certificate is not trusted: {error.verify_message}",
                host=self.address,
            ) from error
        except ssl.SSLError as error:
            raise lost_connection(error, f"TLS handshake failed: {error}", self.address) from error
        except (OSError, UnicodeError) as error:
            raise ConnectionFailed(f"cannot connect: {error}", host=self.address) from error

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        transport = self._transport
        return transport is not None and not transport.is_closing()

    def send(
        self, message: Request[R], version: int | None = None, *, highest: int | None = None
    ) -> asyncio.Future[R]:
        """Write a request, at the version that `agree` names; its answer, or the error that there
        will be none.

        Produce with acks=0 is not answered: its future is done with None. Raises ConnectionFailed
        when closed, UnsupportedApi, EncodeError for what the version cannot say.

        A session that is about to end is renewed first. Requests wait for that, and fail with it.
        """
        version = self.agree(message, version, highest)
        if self._transport is None or self._transport.is_closing():
            raise ConnectionFailed("the connection is closed", host=self.address)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if self._held is None and self.is_expired:
            self._held = []
            self._renewal = loop.create_task(self._renew())
        if self._held is not None:
            self._held.append((message, version, future))
        else:
            self._write(message, version, future)
        return future

    def _write(self, message: Request[Any], version: int, future: asyncio.Future[Any]) -> None:
        """Send a request at once."""
        if self._transport is None:
            raise ConnectionFailed("the connection is closed", host=self.address)
        _, parts = self.frame(message, version)
        if is_answered(message):
            self._futures.append(future)
        else:
            future.set_result(None)
        self._transport.writelines(parts)

    async def _renew(self) -> None:
        """Log in again, then send what has waited for it."""
        try:
            await self._authenticate(self._request_at_once)
        except ClientError as error:
            self._lose(error)
            return
        held, self._held = self._held or [], None
        for message, version, future in held:
            if future.done():  # it is not waited for any more
                continue
            try:
                self._write(message, version, future)
            except (ClientError, WireError) as error:
                future.set_exception(error)

    async def _request_at_once(self, message: Request[R], version: int | None) -> R:
        """`request`, in front of those that wait for the session."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._write(message, self.agree(message, version, None), future)
        return await self.answer_to(future, self._request_timeout_ms)

    async def request(
        self,
        message: Request[R],
        version: int | None = None,
        *,
        highest: int | None = None,
        timeout_ms: float | None = None,
    ) -> R:
        """Send and wait; RequestTimedOut (which closes the connection), ConnectionFailed and so
        on."""
        limit_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        return await self.answer_to(self.send(message, version, highest=highest), limit_ms)

    async def answer_to(self, future: asyncio.Future[R], timeout_ms: float) -> R:
        """Wait for an answer, however the waiting ends."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await asyncio.shield(future)
        except TimeoutError:
            late = RequestTimedOut(f"no answer within {timeout_ms:.0f} ms", host=self.address)
            self._lose(late)
            raise late from None

    def begin(
        self,
        message: Request[R],
        version: int | None = None,
        *,
        highest: int | None = None,
        timeout_ms: float | None = None,
    ) -> asyncio.Future[R]:
        """`send` what no task has to wait for in order to end the connection when nothing comes
        for `timeout_ms` (default `request.timeout.ms`): its future is RequestTimedOut then."""
        limit_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        future = self.send(message, version, highest=highest)
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            if future.done():
                return
            late_at = max(began_at, self._received_at) + limit_ms / 1000
            if loop.time() < late_at:  # it is coming; or the event loop had no turn to read it
                timer = loop.call_at(late_at, look)
            else:
                late = RequestTimedOut(f"no answer within {limit_ms:.0f} ms", host=self.address)
                self._lose(late)

        timer = loop.call_later(limit_ms / 1000, look)
        future.add_done_callback(lambda _: timer.cancel())
        return future

    def close(self) -> None:
        """Disconnect; requests on their way fail."""
        self._lose(ConnectionFailed("the connection was closed", host=self.address))

    async def _converse(self, requests: Opening) -> None:
        await drive(requests, lambda asked: self.request(*asked))

    # -- what the event loop says ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Nothing is sent by itself."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it

    def data_received(self, data: bytes) -> None:
        """Hand the answers that are whole to who waits for them."""
        self._received_at = asyncio.get_running_loop().time()
        try:
            for frame in self._reader.feed(data):
                response = self._in_flight.decode(self._in_flight.match(frame), frame)
                future = self._futures.popleft()
                if not future.done():
                    future.set_result(response)
        except ProtocolError as error:
            self._lose(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """The broker is gone."""
        if exc is None:
            self._lose(ConnectionFailed("the broker closed the connection", host=self.address))
        else:
            self._lose(lost_connection(exc, str(exc), self.address))

    def _lose(self, error: ClientError) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        self._in_flight.clear()
        held, self._held = self._held or [], None
        self._futures.extend(future for _, _, future in held)
        while self._futures:
            future = self._futures.popleft()
            if not future.done():
                future.set_exception(error)
                future.exception()  # what waits gets it, if anything still does
