"""One request in flight: who sent it, and the place of its answer among the responses.

See `registry` for the ways in which a handler answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from fencepost.broker.net.client_quotas import Meter, QuotaGate
from fencepost.broker.net.registry import Route, Routes
from fencepost.log.configdef import INT_MAX
from fencepost.machines.session import (
    Principal,
    SecurityProtocol,
    Session,
    SessionState,
    VersionsAnswered,
)
from fencepost.runtime.requests.context import Pieces
from fencepost.wire.errors import EncodeError, ErrorCode
from fencepost.wire.frame import encode_response_parts, frame_response_parts
from fencepost.wire.message import Message, Struct

log = logging.getLogger(__name__)

Buffer = bytes | bytearray | memoryview

MESSAGE_LETTERS_MAX: Final = 1_000
"""What is left of an error message that is too long to be sent."""
CUT: Final = "..."


class LoginSteps(Protocol):
    """What handlers need of a login by SASL."""

    def shake_hands(self, context: PendingRequest, request: Any) -> None:
        """Answer the request, which names a mechanism."""
        ...

    def authenticate(self, context: PendingRequest, request: Any) -> None:
        """Answer the request, which carries a token."""
        ...


class Replier(Protocol):
    """What a context needs of its connection."""

    @property
    def client_host(self) -> str:
        """The peer's address, without port."""
        ...

    @property
    def listener_name(self) -> str:
        """The listener the client came in by."""
        ...

    @property
    def security_protocol(self) -> SecurityProtocol:
        """How that listener is secured."""
        ...

    @property
    def principal(self) -> Principal:
        """Who the client is."""
        ...

    @property
    def session(self) -> Session:
        """What its client may do now."""
        ...

    @property
    def login(self) -> LoginSteps | None:
        """The client's login; None where there is none."""
        ...

    @property
    def routes(self) -> Routes:
        """What the listener serves, by API key."""
        ...

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        ...

    @property
    def available_bytes(self) -> int:
        """How large an answer should be at most, if that can be chosen."""
        ...

    @property
    def at_once_bytes(self) -> int:
        """How many bytes an answer may read before others come first."""
        ...

    def have_read(self, size_bytes: int) -> None:
        """An answer has read so many bytes from a log."""
        ...

    is_broker: bool
    """Whether a broker is the client."""
    quotas: QuotaGate
    """What requests are charged to."""

    def add_outgoing(self, size_bytes: int) -> None:
        """An answer that is made takes so much more (or less) memory."""
        ...

    def is_next(self, context: PendingRequest) -> bool:
        """Whether the context's answer would leave now."""
        ...

    def settled(self, context: PendingRequest) -> None:
        """The context's answer is known."""
        ...

    def add_buffered(self, size_bytes: int) -> None:
        """A request takes so much more (or less) memory until it is answered."""
        ...

    def close(self, reason: str) -> None:
        """Disconnect, with one log line."""
        ...


class PendingRequest:
    """One request in flight: who sent it, and the place of its answer among the responses."""

    taker: Final = None
    """A slot of a `RunTaker` has one; this is the place of one request."""

    is_forwarded = False
    """Whether a broker has passed it on for its client."""

    __slots__ = (
        "_buffered_bytes",
        "_gone",
        "_make",
        "_on_disconnect",
        "_parts",
        "_pieces",
        "answered",
        "api_version",
        "client_id",
        "connection",
        "correlation_id",
        "frame_size_bytes",
        "meter",
        "route",
        "throttle_time_ms",
    )

    def __init__(
        self,
        connection: Replier,
        route: Route,
        api_version: int,
        correlation_id: int,
        client_id: str | None = None,
        frame_size_bytes: int = 0,
    ) -> None:
        self.connection = connection
        self.route = route
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.frame_size_bytes = frame_size_bytes
        self.answered = False
        self.throttle_time_ms = 0
        self.meter: Meter | None = None
        """Of a request that came while its client had a quota."""
        self._gone = False
        self._buffered_bytes = 0
        self._parts: list[Buffer] | None = None
        self._make: Callable[[], Message] | None = None
        self._pieces: Pieces | None = None
        self._on_disconnect: Callable[[], None] | None = None

    @property
    def client_host(self) -> str:
        """The client's address, without port."""
        return self.connection.client_host

    @property
    def principal(self) -> Principal:
        """Who the client is."""
        return self.connection.principal

    @property
    def listener_name(self) -> str:
        """The listener the client came in by: its endpoints are the ones to tell it."""
        return self.connection.listener_name

    @property
    def security_protocol(self) -> SecurityProtocol:
        """How that listener is secured."""
        return self.connection.security_protocol

    @property
    def login(self) -> LoginSteps | None:
        """The client's login by SASL; None on a listener without."""
        return self.connection.login

    @property
    def is_before_login(self) -> bool:
        """Whether the client has to log in first."""
        return self.connection.session.state is not SessionState.READY

    def note_versions_answered(self) -> None:
        """The request is an ApiVersions, and is answered without an error."""
        self.connection.session.step(VersionsAnswered())

    @property
    def api_name(self) -> str:
        """The API by its name in Kafka."""
        return self.route.name

    @property
    def routes(self) -> Routes:
        """What is served where the request came in, by API key."""
        return self.connection.routes

    @property
    def disconnected(self) -> bool:
        """Whether the client is gone; answering is then allowed and in vain."""
        return self.connection.closed

    @property
    def available_bytes(self) -> int:
        """How large an answer should be at most, if that can be chosen: memory may be short."""
        return self.connection.available_bytes

    @property
    def at_once_bytes(self) -> int:
        """How many bytes the answer may read before it lets others go first."""
        return self.connection.at_once_bytes

    def have_read(self, size_bytes: int) -> None:
        """The answer has read so many bytes from a log."""
        self.connection.have_read(size_bytes)

    def throttle(self, throttle_time_ms: int) -> None:
        """The client is to wait so long before its next request; see `RequestContext`."""
        self.throttle_time_ms = max(self.throttle_time_ms, throttle_time_ms)

    @property
    def api_key(self) -> int:
        """Of the request's API."""
        return self.route.api_key

    @property
    def is_from_broker(self) -> bool:
        """Whether a broker has sent it."""
        return self.connection.is_broker

    @property
    def fetch_bytes_max(self) -> int:
        """See `runtime.requests.fetch_parts.FetchRequestContext`."""
        quotas = self.connection.quotas
        return quotas.fetch_bytes_max(self) if quotas.is_on else INT_MAX

    def is_throttled_for(self, size_bytes: int) -> bool:
        """See `runtime.requests.fetch_parts.FetchRequestContext`."""
        quotas = self.connection.quotas
        return quotas.is_on and quotas.charge_fetch(self, size_bytes)

    def charge(self) -> None:
        """The answer is known: its client's quotas are charged, once."""
        quotas = self.connection.quotas
        if quotas.is_on:
            quotas.charge(self)

    def comes_from_broker(self) -> None:
        """The client is a broker: what it is sent comes before what clients are."""
        self.connection.is_broker = True

    def add_outgoing(self, size_bytes: int) -> None:
        """An answer that is made in pieces takes so much more memory, or less: as much of it as it
        took, when it is done. What is left for others is `available_bytes`."""
        self.connection.add_outgoing(size_bytes)

    def queued(self) -> PendingRequest:
        """The request in its place in the queue."""
        return self

    def began(self, at_s: float) -> None:
        """A `RunTaker` had begun its work when it put this into the queue, so long ago by
        `time.perf_counter`."""

    @property
    def is_next(self) -> bool:
        """Whether the answer would leave now: no other is in front of it, and the client reads what
        it is sent."""
        return self.connection.is_next(self)

    @property
    def answer_bytes(self) -> int:
        """What the encoded answer takes; 0 as long as there is none."""
        return 0 if self._parts is None else sum(map(len, self._parts))

    def add_buffered(self, size_bytes: int) -> None:
        """The request takes so much memory until its answer leaves, besides its frame.

        Clients whose requests take the most are evicted when all of them take too much
        (`memory_budget`), so it may be this one.
        """
        if size_bytes and not self._gone:
            self._buffered_bytes += size_bytes
            self.connection.add_buffered(size_bytes)

    def release(self) -> None:
        """For the connection: the answer leaves."""
        buffered_bytes, self._buffered_bytes = self._buffered_bytes, 0
        if buffered_bytes:
            self.connection.add_buffered(-buffered_bytes)

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call `callback` if the client leaves before the answer: stop waiting on its behalf."""
        self._on_disconnect = callback

    def reply(self, message: Message) -> None:
        """The answer. A second one is a mistake and is refused by an assertion."""
        if self._may_answer():
            self._parts = self._encode(message)
            self._settle()

    def reply_without_errors(self, *parts: Buffer) -> None:
        """The answer, encoded with its length in front, in parts; there is no error in it."""
        if self._may_answer():
            self.charge()
            self._parts = list(parts)
            if self.throttle_time_ms:
                self._parts = self.with_throttle_time(self._parts)
            self._settle()

    def reply_encoded(self, kind: type[Message], body: bytes, errors: Sequence[int]) -> None:
        """The answer, of which the body is encoded, and the error codes in it that are not 0."""
        if self._may_answer():
            self._parts = self._frame(kind, body, errors)
            self._settle()

    def reply_lazily(self, make: Callable[[], Message]) -> None:
        """The answer can be had from `make`, once, when the connection is ready to send it."""
        if self._may_answer():
            self._make = make
            self._settle()

    def reply_when_next(
        self, make: Callable[[], Message | Pieces | list[Buffer]], pieces: Callable[[], Pieces]
    ) -> None:
        """`make` the answer now if it would leave now, else what `pieces` returns when it would."""
        if self.is_next:
            self.reply_now(make)
        else:
            self.reply_in_pieces(pieces())

    def reply_now(self, make: Callable[[], Message | Pieces | list[Buffer]]) -> None:
        """`make`, called now, makes the answer of a request that `is_next`, or returns the pieces
        that do. Parts are an answer as `reply_without_errors` takes it."""
        quotas = self.connection.quotas
        begins = quotas.is_on and quotas.goes_on(self)
        try:
            answer = make()
        except Exception:
            log.exception("%s v%d failed", self.route.name, self.api_version)
            self.fail()
        else:
            if isinstance(answer, Message):
                self.reply(answer)
            elif isinstance(answer, list):
                self.reply_without_errors(*answer)
            else:
                self.reply_in_pieces(answer)
        if begins:
            quotas.returned(self)

    def reply_in_pieces(self, pieces: Pieces) -> None:
        """`pieces` makes the answer, once, when the connection is ready to send it."""
        if self._may_answer():
            self._pieces = pieces
            self._settle()

    def no_reply(self) -> None:
        """The protocol has no response for this request."""
        if self._may_answer():
            quotas = self.connection.quotas
            if quotas.is_on:
                quotas.charge_unanswered(self)
            self._parts = []
            self._settle()

    def close(self, reason: str) -> None:
        """Disconnect the client: answers before this one are lost or sent, this one is not."""
        self._gone = True
        self.connection.close(reason)  # what is in front may leave, and this is no answer
        self.answered = True

    def fail(self, error: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR) -> None:
        """We cannot serve this: say so where the API has an error field, disconnect where not."""
        if self.answered:
            return
        message = error_response(self.route, self.api_version, error)
        if message is None:
            self.close(f"{self.route.name} v{self.api_version} failed: {error.name}")
        else:
            self.reply(message)

    def abandoned(self) -> None:
        """The connection is gone: call what is registered for that."""
        self.answered = self._gone = True
        self._parts = self._make = self._pieces = None  # they may refer back to this context
        callback, self._on_disconnect = self._on_disconnect, None
        if callback is not None:
            callback()

    def answering(self, pieces: Pieces) -> Pieces:
        """`pieces`, and then the answer that they return; if they fail, that they have."""
        try:
            message = yield from pieces
        except Exception:
            log.exception("%s v%d failed", self.route.name, self.api_version)
            self.fail()
        else:
            if message is not None:
                self.reply(message)
        return None

    def take_pieces(self) -> Pieces | None:
        """What has to be worked on before `take_parts`, given once; None if there is no such."""
        pieces, self._pieces = self._pieces, None
        return None if pieces is None else self._made(pieces)

    def _made(self, pieces: Pieces) -> Pieces:
        message = yield from pieces
        assert message is not None, "it has an answer"
        self._parts = self._encode(message)
        return None

    def leave(self, parts: list[Buffer]) -> None:
        """For the connection: this is the answer, without errors, and it leaves now."""
        self.answered = True

    def take_parts(self) -> list[Buffer]:
        """The encoded response; for the connection, when it is its turn."""
        make, self._make = self._make, None
        if make is not None:
            self._parts = self._encode(make())
        parts, self._parts = self._parts, None
        assert parts is not None
        return parts

    def _encode(self, message: Message) -> list[Buffer]:
        self.charge()
        if self.throttle_time_ms and hasattr(message, "throttle_time_ms"):
            message.throttle_time_ms = max(message.throttle_time_ms, self.throttle_time_ms)
        try:
            return encode_response_parts(message, self.api_version, self.correlation_id)
        except EncodeError:
            if shorten_error_messages(message):
                return self._encode(message)
            log.exception("cannot encode the %s v%d response", self.route.name, self.api_version)
            substitute = error_response(
                self.route, self.api_version, ErrorCode.UNKNOWN_SERVER_ERROR
            )
            if substitute is None:
                raise
            return encode_response_parts(substitute, self.api_version, self.correlation_id)

    def _frame(self, kind: type[Message], body: bytes, errors: Sequence[int]) -> list[Buffer]:
        self.charge()
        parts = frame_response_parts(kind, [body], self.api_version, self.correlation_id)
        return self.with_throttle_time(parts) if self.throttle_time_ms else parts

    def with_throttle_time(self, parts: list[Buffer]) -> list[Buffer]:
        """An encoded response, length included, that says for how long the client is throttled."""
        # What most clients never need, a start can do without.
        from fencepost.broker.net.throttle_time import with_throttle_time
        from fencepost.wire.api import response_class

        kind = response_class(self.route.api_key)
        return with_throttle_time(kind, self.api_version, parts, self.throttle_time_ms)

    def _may_answer(self) -> bool:
        """Whether the client is there to be answered."""
        assert self._gone or not self.answered, f"{self.route.name} is answered twice"
        return not self._gone

    def _settle(self) -> None:
        self.answered = True
        self._on_disconnect = None
        self.connection.settled(self)


def shorten_error_messages(struct: Struct) -> bool:
    """Cut long error messages anywhere in the struct; whether there were any.

    They quote what the client has sent. A name may have 32,767 bytes, as may the message that says
    what is wrong with it, so together they are too many. The end stays, too: it gives the reason.
    """
    found = False
    for descriptor in type(struct).fields:
        value = getattr(struct, descriptor.name)
        if isinstance(value, str):
            if descriptor.name.endswith("error_message") and len(value) > MESSAGE_LETTERS_MAX:
                half = MESSAGE_LETTERS_MAX // 2 - len(CUT)
                setattr(struct, descriptor.name, f"{value[:half]}{CUT}{value[-half:]}")
                found = True
        else:
            for one in value if isinstance(value, list | tuple) else (value,):
                if isinstance(one, Struct):
                    found |= shorten_error_messages(one)
    return found


def error_response(route: Route, version: int, error: ErrorCode) -> Message | None:
    """A response that carries only `error` at the top, or None where the API has no such field."""
    from fencepost.wire.api import response_class

    response = response_class(route.api_key)
    for descriptor in response.fields:
        if descriptor.name == "error_code" and descriptor.versions.holds(version):
            message = response()
            setattr(message, descriptor.name, int(error))
            return message
    return None
