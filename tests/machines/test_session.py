"""The session of a connection: every input in every state, and the order of checks in Kafka."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.machines.session import (
    ANONYMOUS,
    USER,
    Authenticated,
    AuthenticationFailed,
    ChallengeSent,
    ClientConnected,
    ClientDisconnected,
    DelayElapsed,
    Disconnect,
    HandshakeArrived,
    Ignore,
    Principal,
    Proceed,
    Refuse,
    RequestArrived,
    SecurityProtocol,
    Session,
    SessionInput,
    SessionRules,
    SessionState as State,
    TlsEstablished,
    TlsFailed,
    TokenArrived,
    UnexpectedInputError,
    VersionsAnswered,
)
from fencepost.machines.session.machine import REAUTHENTICATION_INTERVAL_MS
from fencepost.wire.errors import ErrorCode

PRODUCE, HANDSHAKE, VERSIONS, AUTHENTICATE = 0, 17, 18, 36
FRAME_BYTES, LOGIN_BYTES, DELAY_MS = 1 << 20, 1 << 10, 70
ALICE, BOB = Principal(USER, "alice"), Principal(USER, "bob")
PLAIN, SCRAM = "PLAIN", "SCRAM-SHA-256"


def rules(protocol: SecurityProtocol, max_session_ms: int = 0) -> SessionRules:
    return SessionRules(
        FRAME_BYTES, protocol, (PLAIN, SCRAM), LOGIN_BYTES, max_session_ms, DELAY_MS
    )


def connected(
    protocol: SecurityProtocol = SecurityProtocol.SASL_PLAINTEXT, max_session_ms: int = 0
) -> Session:
    session = Session(rules(protocol, max_session_ms))
    assert session.step(ClientConnected()) == Proceed()
    return session


def logged_in(max_session_ms: int = 0, mechanism: str = PLAIN, now_ms: int = 0) -> Session:
    session = connected(max_session_ms=max_session_ms)
    for one in (
        RequestArrived(HANDSHAKE, now_ms),
        HandshakeArrived(mechanism, 1, now_ms),
        RequestArrived(AUTHENTICATE, now_ms),
        Authenticated(ALICE, now_ms),
    ):
        assert session.step(one) == Proceed()
    return session


# -- where connections begin -----------------------------------------------------------------------


def test_a_plaintext_listener_is_ready_at_once() -> None:
    session = connected(SecurityProtocol.PLAINTEXT)
    assert session.state is State.READY
    assert session.principal == ANONYMOUS
    assert session.apis is None and session.frame_bytes_max == FRAME_BYTES
    assert not session.is_guarded and session.serves_all(1 << 60)


@pytest.mark.parametrize(
    ("protocol", "first", "then"),
    [
        (SecurityProtocol.SSL, State.TLS, State.READY),
        (SecurityProtocol.SASL_SSL, State.TLS, State.HANDSHAKE),
    ],
)
def test_a_certificate_is_the_principal_only_without_sasl(protocol, first, then) -> None:
    session = connected(protocol)
    assert (session.state, session.frame_bytes_max, session.apis) == (first, 0, frozenset())
    assert session.step(TlsEstablished(ALICE)) == Proceed()
    assert session.state is then
    assert session.principal == (ALICE if then is State.READY else ANONYMOUS)


def test_failed_tls_ends_the_connection() -> None:
    session = connected(SecurityProtocol.SSL)
    assert session.step(TlsFailed("no certificate")) == Disconnect("no certificate")
    assert session.state is State.CLOSING


# -- logging in ------------------------------------------------------------------------------------


def test_before_the_handshake_two_apis_are_let_through_and_versions_once() -> None:
    session = connected()
    assert session.apis == {HANDSHAKE, VERSIONS}
    assert session.frame_bytes_max == LOGIN_BYTES and session.is_guarded
    assert session.step(RequestArrived(VERSIONS, 0)) == Proceed()
    assert session.apis == {HANDSHAKE, VERSIONS}, "it was answered with an error: once more"
    assert session.step(VersionsAnswered()) == Proceed()
    assert session.apis == {HANDSHAKE}
    assert isinstance(session.step(RequestArrived(VERSIONS, 0)), Disconnect)
    assert session.state is State.CLOSING


def test_a_frame_before_login_is_no_larger_than_any_other() -> None:
    session = Session(SessionRules(FRAME_BYTES, SecurityProtocol.SASL_PLAINTEXT, (PLAIN,), 1 << 30))
    session.step(ClientConnected())
    assert (session.state, session.frame_bytes_max) == (State.HANDSHAKE, FRAME_BYTES)


@pytest.mark.parametrize("key", [PRODUCE, AUTHENTICATE])
def test_another_api_before_the_handshake_has_no_answer(key) -> None:
    session = connected()
    reaction = session.step(RequestArrived(key, 0))
    assert isinstance(reaction, Disconnect) and reaction.delay_ms == 0


def test_an_unknown_mechanism_is_refused_after_the_delay() -> None:
    session = connected()
    assert session.step(HandshakeArrived("NTLM", 1, 0)) == Refuse(
        ErrorCode.UNSUPPORTED_SASL_MECHANISM, DELAY_MS
    )
    assert (session.state, session.frame_bytes_max) == (State.CLOSING, 0)
    assert session.step(RequestArrived(HANDSHAKE, 1)) == Ignore()
    assert isinstance(session.step(DelayElapsed()), Disconnect)


def test_behind_the_handshake_another_api_is_refused_by_its_key_alone() -> None:
    session = connected()
    session.step(HandshakeArrived(PLAIN, 1, 0))
    assert session.apis == {AUTHENTICATE}
    assert session.step(RequestArrived(PRODUCE, 0)) == Refuse(ErrorCode.ILLEGAL_SASL_STATE, 70)
    assert session.state is State.CLOSING and session.principal == ANONYMOUS


def test_several_steps_of_a_mechanism_then_the_principal() -> None:
    session = connected()
    session.step(HandshakeArrived(SCRAM, 1, 0))
    assert session.mechanism == SCRAM
    for one in (ChallengeSent(), RequestArrived(AUTHENTICATE, 0), ChallengeSent()):
        assert session.step(one) == Proceed()
        assert session.state is State.AUTHENTICATE and session.principal == ANONYMOUS
    assert session.step(Authenticated(ALICE, 0)) == Proceed()
    assert (session.state, session.principal) == (State.READY, ALICE)
    assert session.lifetime_ms(0) == 0 and not session.is_guarded


def test_a_refused_client_is_answered_behind_v1_and_disconnected_behind_v0() -> None:
    for version, wanted in ((1, Refuse), (0, Disconnect)):
        session = connected()
        session.step(HandshakeArrived(PLAIN, version, 0))
        reaction = session.step(AuthenticationFailed())
        assert type(reaction) is wanted
        assert reaction.delay_ms == DELAY_MS
        if isinstance(reaction, Refuse):
            assert reaction.error is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert session.state is State.CLOSING


def test_tokens_and_requests_are_not_taken_for_each_other() -> None:
    session = connected()
    session.step(HandshakeArrived(PLAIN, 0, 0))
    assert session.reads_tokens and session.apis == frozenset()
    assert session.step(TokenArrived()) == Proceed()
    assert isinstance(session.step(RequestArrived(AUTHENTICATE, 0)), Disconnect)
    session = connected()
    session.step(HandshakeArrived(PLAIN, 0, 0))
    session.step(Authenticated(ALICE, 0))
    assert not session.reads_tokens, "requests come behind the last token"
    session = connected()
    session.step(HandshakeArrived(PLAIN, 1, 0))
    assert isinstance(session.step(TokenArrived()), Disconnect)


# -- again (KIP-368) -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_session_ms", "expires_ms", "wanted"),
    [(0, None, None), (500, None, 600), (0, 400, 400), (500, 400, 400), (200, 400, 300)],
)
def test_a_session_lasts_until_the_first_of_its_ends(max_session_ms, expires_ms, wanted) -> None:
    session = connected(max_session_ms=max_session_ms)
    session.step(HandshakeArrived(PLAIN, 1, 0))
    session.step(Authenticated(ALICE, 100, expires_ms))
    assert session.expires_ms == wanted
    assert session.lifetime_ms(100) == (0 if wanted is None else wanted - 100)
    assert session.is_guarded == (wanted is not None)


def test_a_session_that_has_ended_is_closed_at_the_next_request_but_a_handshake() -> None:
    session = logged_in(1_000)
    assert session.step(RequestArrived(PRODUCE, 999)) == Proceed() and session.serves_all(999)
    assert session.step(RequestArrived(HANDSHAKE, 1_000)) == Proceed()
    assert not session.serves_all(1_000) and session.lifetime_ms(2_000) == 0
    assert isinstance(session.step(RequestArrived(PRODUCE, 1_000)), Disconnect)
    assert session.state is State.CLOSING


def test_a_session_that_has_ended_does_not_tell_its_versions_either() -> None:
    session = logged_in(1_000)
    assert session.step(RequestArrived(VERSIONS, 999)) == Proceed()
    assert isinstance(session.step(RequestArrived(VERSIONS, 1_000)), Disconnect)


def test_another_mechanism_cannot_reauthenticate() -> None:
    session = logged_in(1_000)
    session.step(HandshakeArrived(SCRAM, 1, 5))
    assert isinstance(session.step(Authenticated(ALICE, 6)), Refuse)
    assert session.state is State.CLOSING


def test_without_an_end_a_handshake_is_illegal_and_the_connection_stays() -> None:
    session = logged_in()
    assert session.step(HandshakeArrived(PLAIN, 1, 5)) == Refuse(ErrorCode.ILLEGAL_SASL_STATE)
    assert session.state is State.READY


def test_a_client_authenticates_again_as_itself() -> None:
    session = logged_in(1_000)
    assert session.step(HandshakeArrived(PLAIN, 1, 900)) == Proceed()
    assert (session.state, session.principal) == (State.REAUTHENTICATE, ALICE)
    assert session.apis == {AUTHENTICATE} and session.frame_bytes_max == LOGIN_BYTES
    assert session.step(RequestArrived(AUTHENTICATE, 910)) == Proceed()
    token = Principal(USER, "alice", token_authenticated=True)
    assert session.step(Authenticated(token, 920)) == Proceed()
    assert (session.state, session.expires_ms) == (State.READY, 1_920)
    assert session.principal.token_authenticated, "the same client by type and name"


def test_it_begins_again_at_most_once_a_second() -> None:
    session = logged_in(10_000)
    session.step(HandshakeArrived(PLAIN, 1, 5))
    session.step(Authenticated(ALICE, 6))
    early, due = 5 + REAUTHENTICATION_INTERVAL_MS - 1, 5 + REAUTHENTICATION_INTERVAL_MS
    assert session.step(HandshakeArrived(PLAIN, 1, early)) == Refuse(ErrorCode.ILLEGAL_SASL_STATE)
    assert session.state is State.READY
    assert session.step(HandshakeArrived(PLAIN, 1, due)) == Proceed()


def test_another_principal_is_refused() -> None:
    session = logged_in(1_000)
    session.step(HandshakeArrived(PLAIN, 1, 5))
    assert session.step(Authenticated(BOB, 6)) == Refuse(
        ErrorCode.SASL_AUTHENTICATION_FAILED, DELAY_MS
    )
    assert session.principal == ALICE and session.state is State.CLOSING


@pytest.mark.parametrize("next_one", [RequestArrived(AUTHENTICATE, 6), TokenArrived()])
def test_another_mechanism_is_accepted_and_the_next_frame_has_no_answer(next_one) -> None:
    session = logged_in(1_000)
    assert session.step(HandshakeArrived(SCRAM, 1, 5)) == Proceed()
    assert session.apis == frozenset()
    reaction = session.step(next_one)
    assert isinstance(reaction, Disconnect) and reaction.delay_ms == DELAY_MS


def test_a_mechanism_that_is_not_enabled_ends_a_session_too() -> None:
    """Without an answer, as Apache Kafka does."""
    session = logged_in(1_000)
    reaction = session.step(HandshakeArrived("NTLM", 1, 5))
    assert isinstance(reaction, Disconnect)
    assert reaction.delay_ms == DELAY_MS
    assert session.state is State.CLOSING


# -- every input in every state --------------------------------------------------------------------

NOW_MS = st.integers(0, 5_000)
INPUTS: st.SearchStrategy[SessionInput] = st.one_of(
    st.just(ClientConnected()),
    st.sampled_from([ANONYMOUS, ALICE]).map(TlsEstablished),
    st.just(TlsFailed("why")),
    st.builds(
        RequestArrived, st.sampled_from([PRODUCE, HANDSHAKE, VERSIONS, AUTHENTICATE]), NOW_MS
    ),
    st.just(TokenArrived()),
    st.just(VersionsAnswered()),
    st.builds(HandshakeArrived, st.sampled_from([PLAIN, SCRAM, "NTLM"]), st.integers(0, 1), NOW_MS),
    st.just(ChallengeSent()),
    st.builds(Authenticated, st.sampled_from([ALICE, BOB]), NOW_MS, st.none() | NOW_MS),
    st.just(AuthenticationFailed()),
    st.just(DelayElapsed()),
    st.just(ClientDisconnected()),
)
EXPECTED: dict[State, set[type]] = {
    State.OPEN: {ClientConnected},
    State.TLS: {TlsEstablished, TlsFailed},
    State.HANDSHAKE: {RequestArrived, VersionsAnswered, HandshakeArrived, TlsFailed},
    State.AUTHENTICATE: {
        *(RequestArrived, TokenArrived, ChallengeSent, Authenticated, AuthenticationFailed),
        TlsFailed,
    },
    State.READY: {RequestArrived, HandshakeArrived, VersionsAnswered, TlsFailed},
    State.REAUTHENTICATE: {
        *(RequestArrived, TokenArrived, ChallengeSent, Authenticated, AuthenticationFailed),
        TlsFailed,
    },
    State.CLOSING: set(SessionInput.__args__) - {ClientDisconnected},
}
"""What may come in each state; a client may leave in any, and TLS fail in any that it has begun."""
NEXT: dict[State, set[State]] = {
    State.OPEN: {State.TLS, State.HANDSHAKE, State.READY},
    State.TLS: {State.HANDSHAKE, State.READY},
    State.HANDSHAKE: {State.AUTHENTICATE},
    State.AUTHENTICATE: {State.READY},
    State.READY: {State.REAUTHENTICATE},
    State.REAUTHENTICATE: {State.READY},
    State.CLOSING: set(),
}
"""Where it may lead, besides back to itself and to CLOSING."""


def check_bounds(session: Session) -> None:
    """What holds in every state, whatever led there."""
    state = session.state
    if state in (State.OPEN, State.TLS, State.CLOSING):
        assert session.frame_bytes_max == 0 and session.apis == frozenset()
    elif state is State.READY:
        assert session.frame_bytes_max == FRAME_BYTES and session.apis is None
        assert session.is_guarded == (session.expires_ms is not None)
        return
    else:
        assert session.frame_bytes_max == LOGIN_BYTES
        assert session.apis is not None and session.apis <= {HANDSHAKE, VERSIONS, AUTHENTICATE}
    assert session.is_guarded and not session.serves_all(0)


@settings(max_examples=300, deadline=None)
@given(
    protocol=st.sampled_from(SecurityProtocol),
    max_session_ms=st.sampled_from([0, 1_000]),
    inputs=st.lists(INPUTS, max_size=12),
)
def test_every_input_in_every_state(protocol, max_session_ms, inputs) -> None:
    session = Session(rules(protocol, max_session_ms))
    check_bounds(session)
    authenticated = False
    for one in [ClientConnected(), *inputs]:
        before, principal, apis = session.state, session.principal, session.apis
        if type(one) not in EXPECTED[before] | {ClientDisconnected}:
            with pytest.raises(UnexpectedInputError):
                session.step(one)
            assert (session.state, session.principal) == (before, principal)
            continue
        reaction = session.step(one)
        check_bounds(session)
        after = session.state
        assert after in {before, State.CLOSING} | NEXT[before]
        if after is State.CLOSING and type(one) is not ClientDisconnected:
            assert reaction != Proceed()
        if isinstance(reaction, Refuse):
            assert (reaction.delay_ms is None) == (after is State.READY)
        if isinstance(one, RequestArrived) and reaction == Proceed():
            assert apis is None or one.api_key in apis, "no other request is let through"
        authenticated |= isinstance(one, Authenticated | TlsEstablished) and reaction == Proceed()
        if session.principal != ANONYMOUS:
            assert authenticated
        if authenticated and principal != ANONYMOUS and before is not State.TLS:
            assert session.principal.is_same_as(principal), "a connection stays one client's"
        if protocol.has_sasl and after is State.READY:
            assert session.principal != ANONYMOUS
