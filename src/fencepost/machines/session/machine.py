"""The session machine; the package's docstring has its states.

Theory of operation
-------------------
One table leads from a state and the kind of an input to the method that decides. What is not in it
is a mistake of the connection's (`UnexpectedInputError`), except in CLOSING, where late outcomes
are ignored: a mechanism may work on a thread while its client leaves.

The order of checks is Kafka's (SaslServerAuthenticator):

* Before the handshake only SaslHandshake and one good ApiVersions are let through; what else comes
  ends the connection without an answer. An unknown mechanism is answered with
  UNSUPPORTED_SASL_MECHANISM, after the failure delay.
* Then only SaslAuthenticate is, or tokens without headers behind a handshake of v0. Another API is
  answered with ILLEGAL_SASL_STATE after the failure delay, without reading its body: no more than
  three schemas are ever read from a client that has not authenticated.
* In READY a client may authenticate again if its session has an end, at most once a second, with
  the same mechanism and as the same principal. Another mechanism is found out at the next frame,
  which has no answer. A session that has ended is found out by the next request.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from fencepost.machines.session.inputs import (
    Authenticated,
    AuthenticationFailed,
    ChallengeSent,
    ClientConnected,
    ClientDisconnected,
    DelayElapsed,
    Disconnect,
    HandshakeArrived,
    Ignore,
    Proceed,
    Refuse,
    RequestArrived,
    SessionInput,
    SessionReaction,
    TlsEstablished,
    TlsFailed,
    TokenArrived,
    VersionsAnswered,
)
from fencepost.machines.session.principal import ANONYMOUS, Principal
from fencepost.machines.session.rules import SessionRules
from fencepost.wire.errors import ErrorCode

SASL_HANDSHAKE_KEY: Final = 17
API_VERSIONS_KEY: Final = 18
SASL_AUTHENTICATE_KEY: Final = 36
REAUTHENTICATION_INTERVAL_MS: Final = 1_000
"""A client may begin to authenticate again this long after it last did."""

_PROCEED: Final = Proceed()
_IGNORE: Final = Ignore()
_NO_APIS: Final[frozenset[int]] = frozenset()


class SessionState(Enum):
    """Where a session is; the package's docstring has the table."""

    OPEN = "open"
    TLS = "tls"
    HANDSHAKE = "handshake"
    AUTHENTICATE = "authenticate"
    READY = "ready"
    REAUTHENTICATE = "reauthenticate"
    CLOSING = "closing"


_BEFORE_FRAMES: Final = (SessionState.OPEN, SessionState.TLS, SessionState.CLOSING)


class UnexpectedInputError(Exception):
    """An input that cannot come in this state: a mistake of ours."""


class Session:
    """Of one connection; see the package."""

    __slots__ = (
        "_authenticates_since_ms",
        "_mechanism",
        "_reads_tokens",
        "_rules",
        "_versions_answered",
        "_wrong_mechanism",
        "expires_ms",
        "frame_bytes_max",
        "is_guarded",
        "principal",
        "state",
    )

    def __init__(self, rules: SessionRules) -> None:
        self._rules = rules
        self._mechanism = ""
        self._wrong_mechanism = False
        self._reads_tokens = False
        self._versions_answered = False
        self._authenticates_since_ms: int | None = None
        self.state = SessionState.OPEN
        self.principal: Principal = ANONYMOUS
        """Who the client is: ANONYMOUS until it has authenticated."""
        self.expires_ms: int | None = None
        """When the client has to have authenticated again; None if it need not."""
        self.frame_bytes_max = 0
        """The largest frame that may come now, without its length."""
        self.is_guarded = True
        """Whether the session has to be asked about each request; false where all are let
        through."""

    @property
    def mechanism(self) -> str:
        """The SASL mechanism that the client has chosen; empty if it has chosen none."""
        return self._mechanism

    @property
    def reads_tokens(self) -> bool:
        """Whether frames are tokens of the mechanism, without headers (handshake v0)."""
        return self._reads_tokens

    @property
    def apis(self) -> frozenset[int] | None:
        """The keys of the APIs that are let through now; None for all."""
        state = self.state
        if state is SessionState.READY:
            return None
        if state is SessionState.HANDSHAKE:
            keys = {SASL_HANDSHAKE_KEY}
            return frozenset(keys if self._versions_answered else keys | {API_VERSIONS_KEY})
        if state in _BEFORE_FRAMES or self._reads_tokens or self._wrong_mechanism:
            return _NO_APIS
        return frozenset({SASL_AUTHENTICATE_KEY})

    def serves_all(self, now_ms: int) -> bool:
        """Whether a request of any API would be let through now."""
        return self.state is SessionState.READY and not self._has_expired(now_ms)

    def lifetime_ms(self, now_ms: int) -> int:
        """How long the session lasts from now on, as SaslAuthenticate answers it; 0 for ever."""
        return 0 if self.expires_ms is None else max(0, self.expires_ms - now_ms)

    def step(self, given: SessionInput) -> SessionReaction:
        """Take an input; what the connection is to do. UnexpectedInputError."""
        decide = _STEPS.get((self.state, type(given)))
        if decide is not None:
            reaction = decide(self, given)
        elif self.state is SessionState.CLOSING:
            return _IGNORE
        elif type(given) is ClientDisconnected:
            self.state = SessionState.CLOSING
            reaction = _IGNORE
        else:
            raise UnexpectedInputError(f"{given} in {self.state}")
        self.frame_bytes_max = self._frame_bytes_max()
        self.is_guarded = self.state is not SessionState.READY or self.expires_ms is not None
        return reaction

    # -- decisions -------------------------------------------------------------------------

    def _connect(self, given: ClientConnected) -> SessionReaction:
        protocol = self._rules.protocol
        if protocol.has_tls:
            self.state = SessionState.TLS
        else:
            self.state = SessionState.HANDSHAKE if protocol.has_sasl else SessionState.READY
        return _PROCEED

    def _end_tls(self, given: TlsEstablished) -> SessionReaction:
        """On SASL_SSL the certificate plays no part in the principal."""
        if self._rules.protocol.has_sasl:
            self.state = SessionState.HANDSHAKE
        else:
            self.principal = given.principal
            self.state = SessionState.READY
        return _PROCEED

    def _fail_tls(self, given: TlsFailed) -> SessionReaction:
        return self._disconnect(given.reason)

    def _admit_before_handshake(self, given: RequestArrived) -> SessionReaction:
        apis = self.apis
        if apis is None or given.api_key in apis:
            return _PROCEED
        return self._disconnect(f"api key {given.api_key} before authentication")

    def _note_versions(self, given: VersionsAnswered) -> SessionReaction:
        self._versions_answered = True
        return _PROCEED

    def _shake_hands(self, given: HandshakeArrived) -> SessionReaction:
        if given.mechanism not in self._rules.mechanisms:
            return self._refuse(ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        self._mechanism = given.mechanism
        self._reads_tokens = given.version == 0
        self.state = SessionState.AUTHENTICATE
        return _PROCEED

    def _admit_before_login(self, given: RequestArrived) -> SessionReaction:
        if self._wrong_mechanism:
            return self._refuse_mechanism()
        if self._reads_tokens:
            return self._disconnect(f"api key {given.api_key} where a SASL token is due")
        if given.api_key == SASL_AUTHENTICATE_KEY:
            return _PROCEED
        return self._refuse(ErrorCode.ILLEGAL_SASL_STATE)

    def _admit_token(self, given: TokenArrived) -> SessionReaction:
        if self._wrong_mechanism:
            return self._refuse_mechanism()
        return _PROCEED if self._reads_tokens else self._disconnect("a SASL token without a header")

    def _refuse_mechanism(self) -> SessionReaction:
        why = "the client authenticates again with another mechanism"
        return self._disconnect(why, self._rules.failure_delay_ms)

    def _go_on(self, given: ChallengeSent) -> SessionReaction:
        return _PROCEED

    def _log_in(self, given: Authenticated) -> SessionReaction:
        if self.state is SessionState.REAUTHENTICATE and (
            self._wrong_mechanism or not given.principal.is_same_as(self.principal)
        ):
            return self._refuse_login()
        ends = [] if given.credential_expires_ms is None else [given.credential_expires_ms]
        rules = self._rules
        max_session_ms = rules.max_session_ms_of.get(self._mechanism, rules.max_session_ms)
        if max_session_ms > 0:
            ends.append(given.now_ms + max_session_ms)
        self.expires_ms = min(ends) if ends else None
        self.principal = given.principal
        self._reads_tokens = False
        self.state = SessionState.READY
        return _PROCEED

    def _fail_login(self, given: AuthenticationFailed) -> SessionReaction:
        return self._refuse_login()

    def _admit(self, given: RequestArrived) -> SessionReaction:
        if self._has_expired(given.now_ms) and given.api_key != SASL_HANDSHAKE_KEY:
            return self._disconnect("the session has expired (connections.max.reauth.ms)")
        return _PROCEED

    def _shake_hands_again(self, given: HandshakeArrived) -> SessionReaction:
        since_ms = self._authenticates_since_ms
        if self.expires_ms is None or (
            since_ms is not None and given.now_ms - since_ms < REAUTHENTICATION_INTERVAL_MS
        ):
            return Refuse(ErrorCode.ILLEGAL_SASL_STATE)
        if given.mechanism not in self._rules.mechanisms:
            return self._disconnect(
                "the client authenticates again with a mechanism that is not enabled",
                self._rules.failure_delay_ms,
            )
        self._authenticates_since_ms = given.now_ms
        self._wrong_mechanism = given.mechanism != self._mechanism
        self._reads_tokens = given.version == 0
        self.state = SessionState.REAUTHENTICATE
        return _PROCEED

    def _end_delay(self, given: DelayElapsed) -> SessionReaction:
        return Disconnect("authentication failed")

    # -- what they share -------------------------------------------------------------------

    def _has_expired(self, now_ms: int) -> bool:
        return self.expires_ms is not None and now_ms >= self.expires_ms

    def _refuse(self, error: ErrorCode) -> SessionReaction:
        self.state = SessionState.CLOSING
        return Refuse(error, self._rules.failure_delay_ms)

    def _refuse_login(self) -> SessionReaction:
        """A token without a header has no answer that could hold an error."""
        if self._reads_tokens:
            return self._disconnect("authentication failed", self._rules.failure_delay_ms)
        return self._refuse(ErrorCode.SASL_AUTHENTICATION_FAILED)

    def _disconnect(self, reason: str, delay_ms: int = 0) -> SessionReaction:
        self.state = SessionState.CLOSING
        return Disconnect(reason, delay_ms)

    def _frame_bytes_max(self) -> int:
        rules = self._rules
        if self.state is SessionState.READY:
            return rules.max_frame_bytes
        if self.state in _BEFORE_FRAMES:
            return 0
        return min(rules.max_frame_bytes, rules.login_frame_bytes_max)


_STEPS: Final[dict[tuple[SessionState, type[Any]], Callable[[Session, Any], SessionReaction]]] = {
    (SessionState.OPEN, ClientConnected): Session._connect,
    (SessionState.TLS, TlsEstablished): Session._end_tls,
    (SessionState.HANDSHAKE, RequestArrived): Session._admit_before_handshake,
    (SessionState.HANDSHAKE, VersionsAnswered): Session._note_versions,
    (SessionState.HANDSHAKE, HandshakeArrived): Session._shake_hands,
    (SessionState.AUTHENTICATE, RequestArrived): Session._admit_before_login,
    (SessionState.AUTHENTICATE, TokenArrived): Session._admit_token,
    (SessionState.AUTHENTICATE, ChallengeSent): Session._go_on,
    (SessionState.AUTHENTICATE, Authenticated): Session._log_in,
    (SessionState.AUTHENTICATE, AuthenticationFailed): Session._fail_login,
    (SessionState.READY, RequestArrived): Session._admit,
    (SessionState.READY, HandshakeArrived): Session._shake_hands_again,
    (SessionState.READY, VersionsAnswered): Session._go_on,
    (SessionState.REAUTHENTICATE, RequestArrived): Session._admit_before_login,
    (SessionState.REAUTHENTICATE, TokenArrived): Session._admit_token,
    (SessionState.REAUTHENTICATE, ChallengeSent): Session._go_on,
    (SessionState.REAUTHENTICATE, Authenticated): Session._log_in,
    (SessionState.REAUTHENTICATE, AuthenticationFailed): Session._fail_login,
    (SessionState.CLOSING, DelayElapsed): Session._end_delay,
    **{
        (state, TlsFailed): Session._fail_tls
        for state in SessionState
        if state not in (SessionState.OPEN, SessionState.CLOSING)
    },
}
"""What decides about an input, by the state and the input's class."""
