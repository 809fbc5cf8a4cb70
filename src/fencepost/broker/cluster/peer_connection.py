"""One connection to another node: it negotiates versions, then carries request after request.

What is said, in which frames and versions, is decided in `fencepost.client.protocol`, which the
blocking client drives too; this module has the transport and its timers. A connection carries one
request at a time. It tells its `Peer` what becomes of it, and what the other node does wrong.

Where the other node's listener has SASL, the connection logs in before it is usable, and again
before its session ends (KIP-368), between two requests.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final, Protocol

from fencepost.client.errors import (
    AuthenticationFailed,
    BrokerError,
    ProtocolError,
    UnsupportedApi,
)
from fencepost.client.protocol.framing import FrameReader
from fencepost.client.protocol.in_flight import InFlightRequests
from fencepost.client.protocol.negotiation import negotiate
from fencepost.client.protocol.versions import (
    KeyedApi,
    ServedVersions,
    VersionRange,
    choose_version,
)
from fencepost.machines.broker.requests import for_version
from fencepost.wire.errors import WireError
from fencepost.wire.message import Message

if TYPE_CHECKING:
    from fencepost.client.security import Security

log = logging.getLogger(__name__)

MAX_ELEMENTS: Final = 1_000_000
"""Array elements in a response: a peer that lies must not make gigabytes of its megabytes."""
CONNECT_TIMEOUT_S: Final = 10.0

Opening = Generator[tuple[Any, int | None], Any, int]
"""What is said on a connection before it is usable; comes to how many milliseconds the session
lasts, 0 for ever."""
OnResponse = Callable[[Any], None]
OnFailure = Callable[[str], None]


class Unsupported(str):
    """The reason of a failure, where the peer has the request in no version that can say it."""

    __slots__ = ()


class PeerRequest:
    """One request on its way, and its callbacks."""

    __slots__ = (
        "_loop",
        "_on_failure",
        "_on_response",
        "_timer",
        "connection",
        "keyed",
        "message",
        "versions",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        message: Message,
        on_response: OnResponse,
        on_failure: OnFailure,
        timeout_ms: int,
        keyed: KeyedApi | None = None,
        versions: VersionRange | None = None,
    ) -> None:
        self.message = message
        self.keyed = keyed
        self.versions = versions
        self.connection: PeerConnection | None = None
        self._loop = loop
        self._on_response: OnResponse | None = on_response
        self._on_failure = on_failure
        self._timer = loop.call_later(timeout_ms / 1000, self._time_out, timeout_ms)

    @property
    def done(self) -> bool:
        """Whether it was answered, or given up."""
        return self._on_response is None

    def version(self, served: ServedVersions) -> int:
        """In which version to ask a node that serves these. UnsupportedApi."""
        lowest, highest = self.versions or (None, None)
        return choose_version(type(self.message), served, lowest=lowest, highest=highest)

    def answer(self, response: Message) -> None:
        """There is a response."""
        on_response, self._on_response = self._on_response, None
        if on_response is not None:
            self._timer.cancel()
            _call(on_response, response)

    def cancel(self) -> None:
        """Give it up: no callback is called, and a connection that it is on is closed."""
        if not self.done:
            self._on_response = None
            self._timer.cancel()
            if self.connection is not None:
                self.connection.drop("the request was given up")

    def fail(self, reason: str) -> None:
        """There will be none; told in a turn of its own, so that sending never calls back."""
        if not self.done:
            self._on_response = None
            self._timer.cancel()
            self._loop.call_soon(_call, self._on_failure, reason)

    def _time_out(self, timeout_ms: int) -> None:
        reason = f"no answer within {timeout_ms} ms"
        self.fail(reason)
        if self.connection is not None:
            self.connection.drop(reason)


class Peer(Protocol):
    """What a connection tells about the node at its other end."""

    def on_connected(self, connection: PeerConnection) -> None:
        """It is open, and not usable yet."""

    def on_ready(self, connection: PeerConnection) -> None:
        """It can take a request."""

    def on_session_ending(self, connection: PeerConnection) -> None:
        """It has to log in again, and carries no request: `log_in_again` is to be called."""

    def on_login_refused(self, reason: str) -> None:
        """The peer does not let this node in, and is disconnected."""

    def on_answered(self) -> None:
        """A request was answered as it should be."""

    def on_protocol_error(self, reason: str) -> None:
        """The peer did not keep to the protocol and is disconnected."""

    def on_closed_unanswered(self) -> None:
        """The peer closed a new connection when it was asked for the first time."""

    def on_lost(self, connection: PeerConnection, reason: str) -> None:
        """It is gone."""


class PeerConnection(asyncio.Protocol):
    """One connection; see the module docstring. `drop` ends it from our side."""

    def __init__(
        self,
        peer: Peer,
        loop: asyncio.AbstractEventLoop,
        client_id: str,
        max_response_bytes: int,
        security: Security | None,
        access_token: str | None = None,
    ) -> None:
        self.usable = False
        """Whether the peer's versions are known, and it has let this node in."""
        self.security = security
        self._peer = peer
        self._loop = loop
        self._reader = FrameReader(max_response_bytes)
        self._in_flight = InFlightRequests(client_id, max_elements=MAX_ELEMENTS)
        self._opening = self._open(access_token)
        self._session_ends: asyncio.TimerHandle | None = None
        self._session_ends_at = float("inf")
        self._session_is_ending = False
        self._versions = ServedVersions()
        self._transport: Any = None
        self._request: PeerRequest | None = None
        self._has_answered = False
        self._lost = False
        self._handshake_timer: asyncio.TimerHandle | None = None

    # -- what the event loop says --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the versions, and log in."""
        self._transport = transport
        self._peer.on_connected(self)
        if not self._lost:
            self._begin("no ApiVersions")

    def data_received(self, data: bytes) -> None:
        """Take the responses that are whole."""
        try:
            for frame in self._reader.feed(data):
                token = self._in_flight.match(frame)
                self._take(self._in_flight.decode(token, frame))
                if self._lost:
                    return
        except ProtocolError as error:
            self._disconnect(error.message)

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer is gone."""
        if self._request is not None and not self._has_answered:
            self._peer.on_closed_unanswered()
        self.drop("the peer closed the connection" if exc is None else str(exc))

    # -- what the peer says --------------------------------------------------------------------

    def end_session_if_due(self) -> bool:
        """Whether the session is about to end: then the connection logs in again first.

        A loop that was held up reads what peers have sent before it runs its timers, and what that
        leads to would be sent in a session that is over. The loop's own time may be that of its
        turn's beginning.
        """
        assert self.usable and self._request is None, "nothing is on its way"
        if time.monotonic() < self._session_ends_at:
            return False
        self._end_session()
        return True

    def send(self, request: PeerRequest) -> bool:
        """Send in the newest version that both sides have and the request allows, or as keyed;
        whether there is one.

        If not, the request has failed, and the connection can take another.
        """
        assert self.usable and self._request is None, "a connection takes one request at a time"
        try:
            keyed = request.keyed
            version = (
                request.version(self._versions) if keyed is None else keyed.check(self._versions)
            )
            self._write(for_version(request.message, version), version, keyed)
        except (UnsupportedApi, WireError) as error:
            request.fail(Unsupported(f"{self._peer}: {error}"))
            return False
        self._request, request.connection = request, self
        return True

    def drop(self, reason: str) -> None:
        """Disconnect; a request on its way has failed."""
        if self._lost:
            return
        self._lost = True
        for timer in (self._handshake_timer, self._session_ends):
            if timer is not None:
                timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        request, self._request = self._request, None
        if request is not None:
            request.connection = None
            request.fail(reason)
        self._peer.on_lost(self, reason)

    # -- inside --------------------------------------------------------------------------------

    def _write(self, message: Any, version: int, keyed: KeyedApi | None = None) -> None:
        _, parts = self._in_flight.send(message, version, keyed)
        self._transport.writelines(parts)

    def _take(self, response: Any) -> None:
        if not self.usable:
            self._go_on(response)
            return
        request, self._request = self._request, None
        assert request is not None, "a response that is expected has its request"
        request.connection = None
        self._has_answered = True
        self._peer.on_answered()
        if self._session_is_ending:
            self._end_session()
        else:
            self._peer.on_ready(self)  # first: what the answer leads to may go the same way
        request.answer(response)

    def _open(self, access_token: str | None) -> Opening:
        self._versions = yield from negotiate()
        return (yield from self._log_in(access_token))

    def _log_in(self, access_token: str | None) -> Opening:
        if self.security is None or not self.security.uses_sasl:
            return 0
        # What a node without SASL never needs, its start can do without.
        from fencepost.client.protocol.sasl import authenticate

        return (yield from authenticate(self.security, host=str(self._peer), token=access_token))

    def log_in_again(self, access_token: str | None) -> None:
        """The session is about to end: log in again; `on_ready` says when that is done."""
        if not self._lost:
            self._opening = self._log_in(access_token)
            self._begin("no answer to a login")

    def _begin(self, late: str) -> None:
        reason = f"{late} within {CONNECT_TIMEOUT_S:.0f} s"
        self._handshake_timer = self._loop.call_later(CONNECT_TIMEOUT_S, self.drop, reason)
        self._go_on(None)

    def _go_on(self, response: Any) -> None:
        """Say what comes next; `response` is the one to what was said last, None at first."""
        try:
            message, version = self._opening.send(response)
            if version is None:
                version = choose_version(type(message), self._versions)
        except StopIteration as agreed:
            self._opened(agreed.value)
        except AuthenticationFailed as error:
            self._peer.on_login_refused(str(error))
            self.drop(f"the login is refused: {error}")
        except (BrokerError, UnsupportedApi) as error:
            self._disconnect(str(error))
        else:
            self._write(message, version)

    def _opened(self, lifetime_ms: int) -> None:
        assert self._handshake_timer is not None, "the handshake is timed"
        self._handshake_timer.cancel()
        if lifetime_ms > 0:
            from fencepost.client.protocol.sasl import renewal_after_ms

            after_s = renewal_after_ms(lifetime_ms, random.random()) / 1000
            self._session_ends_at = time.monotonic() + after_s
            self._session_ends = self._loop.call_later(after_s, self._note_end)
        self.usable = True
        self._peer.on_ready(self)

    def _note_end(self) -> None:
        """The session is about to end; a request that is on its way is answered first."""
        self._session_is_ending = True
        if self._request is None:
            self._end_session()

    def _end_session(self) -> None:
        if self._session_ends is not None:
            self._session_ends.cancel()
        self._session_ends_at = float("inf")
        self._session_is_ending = self.usable = False
        self._peer.on_session_ending(self)

    def _disconnect(self, reason: str) -> None:
        """The peer does not speak as it should."""
        self._peer.on_protocol_error(reason)
        self.drop(reason)


def _call(callback: Callable[[Any], None], value: Any) -> None:
    """Whatever goes wrong with one answer must not be in the way of the next."""
    try:
        callback(value)
    except Exception:
        log.exception("handling a response failed")
