"""OAUTHBEARER on the server's side: messages, the refusal in two steps, and what tokens claim."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencepost.client.protocol.oauthbearer import OAuthBearerExchange
from fencepost.machines.sasl import (
    AcceptedToken,
    Challenge,
    ClaimRules,
    Done,
    Failed,
    OAuthBearerServer,
    RejectedToken,
    SaslStep,
    Work,
    check_claims,
)

NOW_MS = 1_700_000_000_000
CLAIMS: dict[str, Any] = {"sub": "ada", "iat": 1_699_999_000, "exp": 1_700_000_100}


def validate(token: str) -> AcceptedToken | RejectedToken:
    return AcceptedToken("ada", 5_000) if token == "good.one" else RejectedToken("it is bad")


def first_step(message: bytes) -> tuple[OAuthBearerServer, SaslStep]:
    server = OAuthBearerServer(validate)
    step = server.step(message)
    return server, step.then(step.run()) if isinstance(step, Work) else step


def test_a_token_logs_in_until_it_expires():
    message = OAuthBearerExchange("good.one", (("trace", "a b"),)).first()
    assert first_step(message)[1] == Done(b"", "ada", 5_000)


@pytest.mark.parametrize("scheme", [b"Bearer", b"BEARER", b"bearer"])
def test_the_scheme_has_no_case(scheme: bytes):
    message = b"n,a=ada,\x01auth=" + scheme + b"  good.one\x01\x01"
    assert isinstance(first_step(message)[1], Done)


def test_a_bad_token_is_refused_in_two_steps():
    server, step = first_step(b"n,,\x01auth=Bearer bad\x01\x01")
    assert step == Challenge(b'{"status":"invalid_token"}')
    refused = server.step(b"\x01")
    assert isinstance(refused, Failed)
    assert refused.told == '{"status":"invalid_token"}'
    assert refused.reason == "the access token is rejected: it is bad"


@pytest.mark.parametrize("second", [b"", b"\x01\x01", b"n,,\x01auth=Bearer good.one\x01\x01"])
def test_behind_a_refusal_nothing_but_the_acknowledgement_comes(second: bytes):
    server, _ = first_step(b"n,,\x01auth=Bearer bad\x01\x01")
    refused = server.step(second)
    assert isinstance(refused, Failed)
    assert refused.told is None


def test_an_identity_must_be_the_tokens_own():
    _, step = first_step(b"n,a=eve,\x01auth=Bearer good.one\x01\x01")
    assert isinstance(step, Failed)
    assert step.told == (
        "Authentication failed: Client requested an authorization id (eve) that is different from"
        " the token's principal name (ada)"
    )


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer good.one\x01",
        b"n,,\x01auth=Bearer good.one",
        b"n,,auth=Bearer good.one\x01\x01",
        b"y,,\x01auth=Bearer good.one\x01\x01",
        b"n,a=,\x01auth=Bearer good.one\x01\x01",
        b"n,,\x01auth=Basic good.one\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer good.one\x01auth=Bearer bad\x01\x01",
        b"n,,\x01auth=Bearer good.one\x011=x\x01\x01",
        b"n,,\x01auth=Bearer good.one\x01x=\x01\x01",
        b"n,,\x01auth=Bearer good.one\x01x=\xc3\xa4\x01\x01",
        b"n,,\x01auth=Bearer go{od.one\x01\x01",
    ],
)
def test_first_messages_that_are_none(message: bytes):
    refused = first_step(message)[1]
    assert isinstance(refused, Failed)
    assert refused.told is None


@given(st.binary(max_size=200))
def test_hostile_bytes_are_refused(message: bytes):
    assert not isinstance(first_step(b"n,," + message)[1], Done)


@given(st.integers(0, 33))
def test_truncated_messages_are_refused(size: int):
    message = b"n,,\x01auth=Bearer good.one\x01k=v\x01\x01"
    assert isinstance(first_step(message[: min(size, len(message) - 1)])[1], Failed)


def test_claims_that_are_good():
    assert check_claims(CLAIMS, ClaimRules(), NOW_MS) == AcceptedToken("ada", 1_700_000_100_000)
    rules = ClaimRules(("kafka", "other"), "me", 30, "client", "scp")
    claims = {**CLAIMS, "aud": ["x", "kafka"], "iss": "me", "client": " bob ", "scp": ["a", "b"]}
    assert check_claims(claims, rules, NOW_MS) == AcceptedToken("bob", 1_700_000_100_000)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"exp": None}, "it has no exp"),
        ({"iat": None}, "it has no iat"),
        ({"exp": "1700000100"}, "its exp is no time"),
        ({"exp": True}, "its exp is no time"),
        ({"exp": 1e300}, "its exp is no time"),
        ({"exp": float("nan")}, "its exp is no time"),
        ({"exp": -1}, "its exp is no time"),
        ({"iat": -1}, "its iat is no time"),
        ({"exp": 1_699_999_970}, "it has expired"),
        ({"nbf": 1_700_000_031}, "it is not valid yet"),
        ({"sub": None}, "its sub is no text, or empty"),
        ({"sub": 7}, "its sub is no text, or empty"),
        ({"sub": "  "}, "its sub is no text, or empty"),
        ({"sub": "\ud800"}, "its sub has characters that are not printable"),
        ({"sub": "ada\n"}, "its sub has characters that are not printable"),
        ({"sub": "\u00a0ada"}, "its sub has characters that are not printable"),
        ({"exp": 10**400}, "its exp is no time"),
        ({"iat": -(10**400)}, "its iat is no time"),
        ({"scope": ["a", ""]}, "its scope has an element that is no text, or empty"),
        ({"scope": ["a", "a "]}, "its scope has an element twice"),
        ({"aud": "other"}, "its audience is not in sasl.oauthbearer.expected.audience"),
        ({"aud": None}, "its audience is not in sasl.oauthbearer.expected.audience"),
        ({"aud": {"kafka": 1}}, "its audience is not in sasl.oauthbearer.expected.audience"),
        ({"iss": "you"}, "its issuer is not sasl.oauthbearer.expected.issuer"),
    ],
)
def test_claims_that_are_not(changed: dict[str, Any], reason: str):
    claims = {**CLAIMS, "aud": "kafka", "iss": "me", **changed}
    assert check_claims(claims, ClaimRules(("kafka",), "me"), NOW_MS) == RejectedToken(reason)


def test_clocks_may_differ_by_the_skew():
    rules = ClaimRules(clock_skew_s=30)
    within = {**CLAIMS, "exp": 1_699_999_970.5, "nbf": 1_700_000_030}
    assert isinstance(check_claims(within, rules, NOW_MS), AcceptedToken)


@given(
    st.dictionaries(
        st.sampled_from(["sub", "iat", "exp", "nbf", "aud", "iss", "scope"]),
        st.none()
        | st.booleans()
        | st.floats()
        | st.integers()
        | st.text()
        | st.lists(st.integers() | st.text()),
    )
)
def test_any_claims_are_judged(claims: dict[str, Any]):
    judged = check_claims(claims, ClaimRules(("kafka",), "me"), NOW_MS)
    assert isinstance(judged, AcceptedToken | RejectedToken)


def test_a_token_without_an_issuer_is_not_of_the_one_that_is_expected():
    claims = {"exp": 2_000, "iat": 1_000, "sub": "ada"}
    rejected = check_claims(claims, ClaimRules(issuer="issuer"), 1_500_000)
    assert isinstance(rejected, RejectedToken)
    accepted = check_claims({**claims, "iss": "issuer"}, ClaimRules(issuer="issuer"), 1_500_000)
    assert isinstance(accepted, AcceptedToken)
