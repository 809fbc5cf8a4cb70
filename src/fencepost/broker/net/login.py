"""The login of one connection by SASL: its requests and tokens go to a mechanism, and what comes of
it to the session.

The session (`machines.session`) decides what may come and what follows, the mechanism
(`machines.sasl`) whether the client is who it says. Behind a SaslHandshake of v0 the client sends
frames that are tokens without headers, and is answered with such; behind v1 it sends
SaslAuthenticate requests. While a token is checked on a thread nothing further is taken from the
client, so everything stays in order.

The first login has a deadline, since Kafka's `connections.max.idle.ms` does not end a client that
sends a byte now and then: a connection takes a descriptor and a place among `max.connections`.

A client may log in again on a connection that is in use (KIP-368): what it has asked before is
answered in its turn.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable
from struct import Struct
from typing import Any, Final, Protocol

from fencepost.broker.net.listener_security import ListenerSecurity
from fencepost.broker.net.logins import Check, Logins
from fencepost.broker.net.pending_request import PendingRequest, error_response
from fencepost.machines.sasl import Challenge, Done, Failed, SaslServer, SaslStep, Work
from fencepost.machines.session import (
    USER,
    Authenticated,
    AuthenticationFailed,
    ChallengeSent,
    Disconnect,
    HandshakeArrived,
    Principal,
    Proceed,
    Refuse,
    Session,
    SessionReaction,
    SessionState,
    TokenArrived,
)
from fencepost.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from fencepost.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

TELLS_LIFETIME_FROM: Final = 1
"""The version of SaslAuthenticate from which a client is told how long its session lasts."""
ILLEGAL_STATE: Final = "Request is not valid given the current SASL state."
TOO_MANY: Final = "too many logins are checked at a time; the client has to try again"
UNKNOWN: Final = "unknown"
"""The mechanism of a login for which the client has chosen none that is enabled."""
_LENGTH: Final = Struct(">i")


class LoginConnection(Protocol):
    """What a login needs of its connection."""

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        ...

    @property
    def client_host(self) -> str:
        """The client's address, without port."""
        ...

    def turn_away(
        self,
        context: PendingRequest,
        reaction: SessionReaction,
        answer: Message | None = None,
        reason: str | None = None,
    ) -> None:
        """Refuse a request with this answer, or disconnect for this reason."""
        ...

    def close(self, reason: str) -> None:
        """Disconnect, with one log line."""
        ...

    def flush(self) -> None:
        """Write what is in the output, and read on."""
        ...


class Login:
    """See the module."""

    __slots__ = (
        "_connection",
        "_deadline",
        "_has_logged_in",
        "_is_raw",
        "_logins",
        "_mechanism",
        "_security",
        "_server",
        "_session",
        "at_work",
    )

    def __init__(
        self,
        connection: LoginConnection,
        security: ListenerSecurity,
        session: Session,
        logins: Logins,
    ) -> None:
        self._connection = connection
        self._security = security
        self._session = session
        self._logins = logins
        self._server: SaslServer | None = None
        self._mechanism = ""
        self._is_raw = False
        self._has_logged_in = False
        self.at_work = False
        """A thread checks what the client has sent: nothing further is taken from it."""
        self._deadline: TimerHandle | None = None

    def begin_deadline(self) -> None:
        """The client is connected: from now on it has so long to log in as its listener allows."""
        self._deadline = self._logins.later(self._security.login_timeout_ms, self._time_over)

    def end_deadline(self) -> None:
        """The client is in, or has left."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _time_over(self) -> None:
        why = (
            f"no login within {self._security.login_timeout_ms} ms"
            " (fencepost.sasl.login.timeout.ms)"
        )
        self._deadline = None
        self.count_refusal(was_ready=False)
        self._tell(None, why)
        self._connection.close(why)

    # -- what comes from the client --------------------------------------------------------

    def shake_hands(self, context: PendingRequest, request: SaslHandshakeRequest) -> None:
        """Take a SaslHandshake, which names the mechanism."""
        rules, mechanism = self._security.rules, request.mechanism
        is_enabled = mechanism in rules.mechanisms
        now_ms = self._logins.now_ms()
        reaction = self._session.step(HandshakeArrived(mechanism, context.api_version, now_ms))
        if isinstance(reaction, Refuse):
            answer = SaslHandshakeResponse(error_code=int(reaction.error))
            if not is_enabled and reaction.error is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
                answer.mechanisms = list(rules.mechanisms)
            self._mechanism = ""
            if self._session.state is SessionState.CLOSING:
                self.count_refusal(was_ready=False)
            why = f"the SASL mechanism {mechanism[:50]!r} is not enabled"
            self._tell(None, why)
            self._connection.turn_away(context, reaction, answer, why)
        elif isinstance(reaction, Disconnect):
            self.count_refusal(was_ready=False)
            self._connection.turn_away(context, reaction)
        elif isinstance(reaction, Proceed):
            self._mechanism = mechanism
            self._is_raw = context.api_version == 0
            self._server = self._security.mechanisms[mechanism]()
            context.reply(SaslHandshakeResponse(mechanisms=list(rules.mechanisms)))

    def authenticate(self, context: PendingRequest, request: SaslAuthenticateRequest) -> None:
        """Take a SaslAuthenticate that the session lets through."""
        self._feed(context, bytes(request.auth_bytes))

    def take_token(self, context: PendingRequest, token: bytes) -> None:
        """Take a frame that is a token without a header."""
        reaction = self._session.step(TokenArrived())
        if isinstance(reaction, Proceed):
            self._feed(context, token)
        else:
            self.count_refusal(was_ready=False)
            self._connection.turn_away(context, reaction)

    def refuse(
        self, context: PendingRequest, reaction: SessionReaction, *, was_ready: bool
    ) -> None:
        """The session does not let a request through: it `was_ready` if it has expired. The
        answer is made of the header alone: nothing else of the request is read."""
        self.count_refusal(was_ready=was_ready)
        route, version, answer = context.route, context.api_version, None
        if isinstance(reaction, Refuse) and route.min_version <= version <= route.max_version:
            answer = error_response(route, version, reaction.error)
        if isinstance(reaction, Refuse) and answer is None:
            reaction = Disconnect(f"api key {route.api_key} in a login", reaction.delay_ms or 0)
        if answer is not None and hasattr(answer, "error_message"):
            answer.error_message = ILLEGAL_STATE
        self._connection.turn_away(context, reaction, answer)

    # -- what the mechanism says -----------------------------------------------------------

    def _feed(self, context: PendingRequest, token: bytes) -> None:
        assert self._server is not None, "a handshake came first"
        self._follow(context, self._server.step(token))

    def _follow(self, context: PendingRequest, step: SaslStep) -> None:
        if isinstance(step, Work):
            self._work(context, step)
        elif isinstance(step, Challenge):
            self._session.step(ChallengeSent())
            self._answer(context, step.token)
        elif isinstance(step, Done):
            self._complete(context, step)
        else:
            self._refuse(context, step)

    def _work(self, context: PendingRequest, work: Work) -> None:
        connection = self._connection
        self.at_work = True
        self._logins.run(
            connection.client_host,
            Check(
                work.run,
                lambda: not connection.closed,
                lambda outcome: self._worked(context, work.then, outcome),
                lambda: connection.close(TOO_MANY),
            ),
        )

    def _worked(
        self, context: PendingRequest, then: Callable[[Any], SaslStep], outcome: Any
    ) -> None:
        self.at_work = False
        if isinstance(outcome, Exception):
            self._follow(context, Failed(f"it could not be checked ({type(outcome).__name__})"))
        else:
            self._follow(context, then(outcome))
        if not self._connection.closed:
            self._connection.flush()

    def _complete(self, context: PendingRequest, done: Done) -> None:
        """The mechanism is content; the session may not be, if it is another client by now."""
        session, logins = self._session, self._logins
        now_ms, before = logins.now_ms(), session.principal
        principal = Principal(USER, done.name, done.token_authenticated)
        expires_ms = done.expires_ms
        if expires_ms is not None:
            expires_ms += now_ms - logins.wall_ms()
        reaction = session.step(Authenticated(principal, now_ms, expires_ms))
        self._server = None
        if not isinstance(reaction, Proceed):
            text = (
                "Cannot change principals during re-authentication from "
                f"{before.type}.{before.name}: {principal.type}.{principal.name}"
            )
            self._turn_away(context, reaction, text, text)
            return
        self._count_success(context.api_version)
        self._tell(str(principal))
        self._answer(context, done.token, session.lifetime_ms(now_ms))

    def _answer(self, context: PendingRequest, token: bytes, lifetime_ms: int = 0) -> None:
        if self._is_raw:
            context.reply_without_errors(_LENGTH.pack(len(token)), token)
        else:
            context.reply(
                SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms)
            )

    def _refuse(self, context: PendingRequest, failed: Failed) -> None:
        what = "re-authentication" if self._has_logged_in else "authentication"
        text = failed.told or (
            f"Authentication failed during {what} due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )
        self._server = None
        reaction = self._session.step(AuthenticationFailed())
        self._turn_away(context, reaction, text, failed.reason)

    def _turn_away(
        self, context: PendingRequest, reaction: SessionReaction, text: str, reason: str
    ) -> None:
        answer = None
        if isinstance(reaction, Refuse):
            answer = SaslAuthenticateResponse(error_code=int(reaction.error), error_message=text)
        self.count_refusal(was_ready=False)
        self._tell(None, reason)
        why = f"a login by {self._mechanism} failed: {reason}"
        self._connection.turn_away(context, reaction, answer, why)

    # -- counts, and the audit log ---------------------------------------------------------

    def _tell(self, principal: str | None, reason: str = "") -> None:
        host, mechanism = self._connection.client_host, self._mechanism or UNKNOWN
        self._logins.tell(principal, host, self._security.name, mechanism, reason)

    def _count_success(self, version: int) -> None:
        self.end_deadline()
        counts, key = self._logins.counts, (self._security.name, self._mechanism)
        (counts.succeeded_again if self._has_logged_in else counts.succeeded)[key] += 1
        self._has_logged_in = True
        if self._is_raw or version < TELLS_LIFETIME_FROM:
            counts.cannot_again[key] += 1

    def count_refusal(self, *, was_ready: bool) -> None:
        """The session refuses a client, which had logged in and had not to log in again yet if it
        `was_ready`: then its session has expired."""
        counts, key = self._logins.counts, (self._security.name, self._mechanism or UNKNOWN)
        if was_ready:
            counts.expired[self._security.name] += 1
        else:
            (counts.failed_again if self._has_logged_in else counts.failed)[key] += 1
