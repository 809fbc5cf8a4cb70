"""OAUTHBEARER without I/O: requests for tokens, answers, unsecured tokens, what is said."""

from __future__ import annotations

import base64
import contextlib
import json

import pytest
from hypothesis import given, strategies as st

from fencepost.client.errors import AuthenticationFailed
from fencepost.client.protocol.oauthbearer import (
    OAuthBearerExchange,
    TokenSource,
    checked_token,
    credentials_request,
    endpoint_refusal,
    read_token_response,
    unsecured_token,
)


def claims_of(token: str) -> dict:
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def test_the_request_has_the_client_in_its_header_and_the_scope_in_its_body():
    source = TokenSource("http://e", "me", "p w+d", scope="a b")
    headers, body = credentials_request(source)
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"me:p w+d"
    assert body == b"grant_type=client_credentials&scope=a+b"
    encoded = TokenSource("http://e", "me", "p w+d", header_urlencode=True)
    headers, body = credentials_request(encoded)
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"me:p+w%2Bd"
    assert body == b"grant_type=client_credentials"


def test_answers_and_their_expiry():
    token = read_token_response(b'{"access_token": "abc", "expires_in": 60}', 1000.0)
    assert (token.value, token.expires_at_s) == ("abc", 1060.0)
    assert read_token_response(b'{"id_token": "abc"}', 0).expires_at_s is None
    jwt = unsecured_token(TokenSource(claims=(("unsecuredLoginStringClaim_sub", "a"),)), 500.0)
    signed = jwt.value + "c2ln"
    assert checked_token(f"  {signed}\n").expires_at_s == 500.0 + 3600
    assert "abc" not in repr(token)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"no", b"{}", b'{"access_token": 5}', b'{"access_token": ""}', b"\xff"]
    + [b'{"access_token": "a b"}', b'{"access_token": "a\\u0001auth=x"}', b"[" * 100_000],
)
def test_what_is_no_token_is_refused(body: bytes):
    with pytest.raises(AuthenticationFailed):
        read_token_response(body, 0)


@given(st.binary(max_size=300))
def test_any_answer_is_a_token_or_refused(body: bytes):
    with contextlib.suppress(AuthenticationFailed):
        read_token_response(body, 0)
    assert endpoint_refusal(401, body).startswith("HTTP status 401")


def test_a_refusal_says_what_the_endpoint_said_but_not_at_any_length():
    body = json.dumps({"error": "invalid_client", "error_description": "x" * 10_000}).encode()
    text = endpoint_refusal(401, body)
    assert text.startswith("HTTP status 401, invalid_client: xxx")
    assert len(text) < 400


def test_unsecured_tokens_have_the_claims_of_the_login_options():
    source = TokenSource(
        claims=(
            ("unsecuredLoginStringClaim_sub", "ada"),
            ("unsecuredLoginNumberClaim_level", "3"),
            ("unsecuredLoginListClaim_scope", "|a|b"),
            ("unsecuredLoginLifetimeSeconds", "60"),
        )
    )
    token = unsecured_token(source, 1000.0)
    assert token.value.endswith(".")
    assert claims_of(token.value) == {
        "sub": "ada", "level": 3.0, "scope": ["a", "b"], "iat": 1000.0, "exp": 1060.0,
    }  # fmt: skip
    for claims in (
        (("unsecuredLoginNumberClaim_level", "3"),),
        (("unsecuredLoginStringClaim_sub", "a"), ("unsecuredLoginNumberClaim_x", "many")),
    ):
        with pytest.raises(AuthenticationFailed, match="unsecured token"):
            unsecured_token(TokenSource(claims=claims), 0)


def test_what_is_said_and_heard():
    exchange = OAuthBearerExchange("tok", (("traceId", "1 2"),))
    assert exchange.first() == b"n,,\x01auth=Bearer tok\x01traceId=1 2\x01\x01"
    assert exchange.done
    exchange.finish(b"")
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        exchange.finish(b'{"status":"invalid_token"}')
    for bad in (("auth", "x"), ("a b", "x"), ("a", "x\x01auth=y"), ("a", "")):
        with pytest.raises(AuthenticationFailed, match="extension_"):
            OAuthBearerExchange("tok", (bad,))


def test_what_a_source_lacks():
    assert TokenSource().missing() == "sasl.oauthbearer.token.endpoint.url"
    assert "clientSecret" in (TokenSource("http://e", "me").missing() or "")
    assert TokenSource("http://e", "me", "x").missing() is None
    assert TokenSource("file:///tmp/token").file == "/tmp/token"
    assert TokenSource("file:///tmp/token").missing() is None
