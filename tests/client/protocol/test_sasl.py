"""SASL without a socket: SCRAM against the RFC's own example, and what `authenticate` asks."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.client.errors import AuthenticationFailed
from fencepost.client.protocol.sasl import ScramExchange, authenticate, renewal_after_ms
from fencepost.client.security import Security
from fencepost.wire.api.sasl_authenticate import SaslAuthenticateResponse
from fencepost.wire.api.sasl_handshake import SaslHandshakeResponse
from fencepost.wire.errors import ErrorCode

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange() -> ScramExchange:
    return ScramExchange("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_scram_says_what_the_rfc_says():
    scram = exchange()
    assert scram.first() == b"n,,n=user,r=" + NONCE.encode()
    assert scram.next(SERVER_FIRST) == CLIENT_FINAL
    assert scram.done
    scram.finish(SERVER_FINAL)


def test_scram_says_that_a_user_is_a_delegation_token():
    token = ScramExchange("SCRAM-SHA-256", "id", "x", "n", token_authenticated=True)
    assert token.first() == b"n,,n=id,r=n,tokenauth=true"


def test_scram_escapes_the_separators_in_names():
    assert ScramExchange("SCRAM-SHA-512", "a=b,c", "x", "n").first() == b"n,,n=a=3Db=2Cc,r=n"


@pytest.mark.parametrize(
    ("challenge", "complaint"),
    [
        (SERVER_FIRST.replace(b"rOpr", b"XXXX"), "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (SERVER_FIRST.replace(b"4096", b"1"), "1 SCRAM iterations"),
        (SERVER_FIRST.replace(b"4096", b"999999999"), "iterations"),
        (SERVER_FIRST.replace(b"4096", b"many"), "iteration count"),
        (SERVER_FIRST.replace(b"W22Z", b"%%%%"), "salt"),
        (b"\xff\xfe", "not text"),
        (b"", "nonce"),
    ],
)
def test_scram_refuses_servers_that_cheat(challenge: bytes, complaint: str):
    with pytest.raises(AuthenticationFailed, match=complaint):
        exchange().next(challenge)


@pytest.mark.parametrize(
    ("last", "complaint"),
    [
        (SERVER_FINAL.replace(b"6rri", b"AAAA"), "could not prove"),
        (b"e=invalid-proof", "invalid-proof"),
        (b"", "could not prove"),
    ],
)
def test_scram_verifies_the_server(last: bytes, complaint: str):
    scram = exchange()
    scram.next(SERVER_FIRST)
    with pytest.raises(AuthenticationFailed, match=complaint):
        scram.finish(last)


def test_passwords_are_their_utf_8_bytes_as_kafka_takes_them():
    """SASLprep would make the same of both, and a broker of Kafka's would refuse one."""
    proofs = [
        ScramExchange("SCRAM-SHA-256", "user", password, NONCE).next(SERVER_FIRST)
        for password in ("\u00aa", "a")
    ]
    assert proofs[0] != proofs[1]


def plain() -> Security:
    return Security("SASL_PLAINTEXT", mechanism="PLAIN", username="ada", password="secret")


def returned(requests: Any, response: Any) -> Any:
    """What the exchange returns after its last response."""
    with pytest.raises(StopIteration) as ended:
        requests.send(response)
    return ended.value.value


def test_authentication_is_a_handshake_and_a_message_of_the_mechanism():
    requests = authenticate(plain())
    handshake, version = next(requests)
    assert (handshake.mechanism, version) == ("PLAIN", 1)
    message, version = requests.send(SaslHandshakeResponse(mechanisms=["PLAIN"]))
    assert bytes(message.auth_bytes) == b"\0ada\0secret" and version is None
    assert returned(requests, SaslAuthenticateResponse(session_lifetime_ms=90_000)) == 90_000


def test_a_refused_mechanism_sends_no_password():
    requests = authenticate(plain(), host="kafka:9092")
    next(requests)
    refusal = SaslHandshakeResponse(
        error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["GSSAPI"]
    )
    with pytest.raises(AuthenticationFailed, match=r"kafka:9092: SASL PLAIN .*GSSAPI"):
        requests.send(refusal)


def test_scram_ends_only_when_the_server_has_proved_itself():
    security = Security(
        "SASL_PLAINTEXT", mechanism="SCRAM-SHA-256", username="user", password="pencil"
    )
    requests = authenticate(security)
    next(requests)
    first, _ = requests.send(SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"]))
    nonce = bytes(first.auth_bytes).rpartition(b"r=")[2]
    challenge = b"r=" + nonce + b"more,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final, _ = requests.send(SaslAuthenticateResponse(auth_bytes=challenge))
    assert bytes(final.auth_bytes).startswith(b"c=biws,r=" + nonce + b"more,p=")
    with pytest.raises(AuthenticationFailed, match="could not prove"):
        requests.send(SaslAuthenticateResponse(auth_bytes=b"v=AAAA"))


@pytest.mark.parametrize(
    ("lifetime_ms", "earliest_ms", "latest_ms"),
    [
        (3_600_000, 3_060_000, 3_420_000),  # a part of it, drawn
        (4_000, 3_400, 3_600),  # a request has 400 ms to be read in it
        (1_500, 1_100, 1_100),
        (1_200, 1_000, 1_000),  # not sooner than brokers allow it
        (500, 425, 475),  # neither can be had
        (1, 0.85, 0.95),
    ],
)
def test_a_session_is_renewed_before_it_ends(lifetime_ms, earliest_ms, latest_ms):
    drawn = [renewal_after_ms(lifetime_ms, part / 200) for part in range(200)]
    assert min(drawn) >= earliest_ms and max(drawn) <= latest_ms
    assert len(set(drawn)) > 1 or earliest_ms == latest_ms
