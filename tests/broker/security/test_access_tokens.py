"""Tokens that are signed, and those that only look like it (CVE-2026-33557); key sets."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("joserfc")

from fencepost.broker.security import access_tokens
from fencepost.broker.security.access_tokens import TokenValidator
from fencepost.broker.security.jwks import (
    SET_BYTES_MAX,
    UNKNOWN_KEY_S,
    JwksError,
    JwksRules,
    KeySetSource,
    check_url,
    fetch_key_set,
    read_key_set,
)
from fencepost.machines.sasl import AcceptedToken, ClaimRules, RejectedToken
from fencepost.testing.access_tokens import AUDIENCE, ISSUER, AccessTokenIssuer

from ...http_servers import serving

RULES = JwksRules("file:///keys", refresh_ms=60_000, retry_ms=100, retry_max_ms=10_000)
CLAIMS = ClaimRules((AUDIENCE,), ISSUER)
FIRST, OTHER = AccessTokenIssuer(), AccessTokenIssuer("other")


class Source:
    """A key set that a test changes, and its clock."""

    def __init__(self, content: bytes | Exception) -> None:
        self.content = content
        self.fetched = 0
        self.now = 1_000.0
        self.keys = KeySetSource(RULES, clock=lambda: self.now, fetch=self._fetch)

    def _fetch(self, url: str) -> bytes:
        self.fetched += 1
        if isinstance(self.content, Exception):
            raise self.content
        return self.content


def validator(content: bytes = FIRST.key_set()) -> TokenValidator:
    return TokenValidator(Source(content).keys, CLAIMS, lambda: int(time.time() * 1000))


def b64(content: Any) -> str:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.mark.parametrize("kind", ["EC", "RSA", "OKP"])
def test_a_signed_token_is_accepted(kind: str):
    issuer = AccessTokenIssuer(kind=kind)
    accepted = validator(issuer.key_set()).validate(issuer.token(exp=4_000_000_000))
    assert accepted == AcceptedToken("ada", 4_000_000_000_000)


def reason(token: str, content: bytes = FIRST.key_set()) -> str:
    rejected = validator(content).validate(token)
    assert isinstance(rejected, RejectedToken), rejected
    return rejected.reason


def test_an_unsigned_token_is_not():
    header, claims, _ = FIRST.token().split(".")
    none = b64({"alg": "none"})
    assert "no signed" in reason(f"{none}.{claims}.")
    assert "not allowed" in reason(f"{none}.{claims}.AAAA")
    assert "not allowed" in reason(f"{b64({'alg': 'NONE', 'kid': 'first'})}.{claims}.AAAA")
    assert "verified" in reason(f"{header}.{claims}.AAAA")


def test_a_public_key_is_no_secret_to_sign_with():
    """The algorithm is swapped for a symmetric one, with the public key as its secret."""
    public = FIRST.key.as_pem(private=False)
    head = b64({"alg": "HS256", "kid": "first"})
    _, claims, _ = FIRST.token().split(".")
    mac = hmac.new(public, f"{head}.{claims}".encode(), hashlib.sha256).digest()
    assert "not allowed" in reason(f"{head}.{claims}.{b64(mac)}")


def test_a_wrong_key_is_found_out():
    forged = AccessTokenIssuer("first")  # another key of the same name
    assert "verified" in reason(forged.token())
    assert "not in the key set" in reason(OTHER.token())


def test_why_a_token_is_rejected_has_nothing_of_the_token():
    """A token whose signature is wrong here may be good elsewhere."""
    forged = AccessTokenIssuer().token()
    assert "signature" in reason(forged)
    for token in (forged, FIRST.token()[:-8], FIRST.token(exp=1), f"{forged}.x", "planted-secret"):
        said = reason(token)
        assert not any(part in said for part in token.split("."))


def test_keys_that_a_token_brings_along_are_not_looked_at():
    forged = AccessTokenIssuer("first")
    jwk = forged.key.as_dict(private=False)
    header = {"jwk": jwk, "jku": "http://127.0.0.1:1/", "x5u": "http://127.0.0.1:1/"}
    assert "verified" in reason(forged.token(header))


def test_a_key_is_for_its_algorithm():
    keys = json.loads(FIRST.key_set())
    keys["keys"][0]["alg"] = "ES384"
    assert "another algorithm" in reason(FIRST.token(), json.dumps(keys).encode())
    rsa = AccessTokenIssuer("first", "RSA")
    assert "verified" in reason(rsa.token())


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        ({"aud": "other"}, "audience"),
        ({"iss": "https://evil"}, "issuer"),
        ({"exp": 5}, "expired"),
        ({"sub": ""}, "sub"),
    ],
)
def test_what_it_claims_counts(claims: dict[str, Any], text: str):
    assert text in reason(FIRST.token(**claims))


@pytest.mark.parametrize(
    "token", ["", "a.b.c", "..", "x" * 70_000, b64([1]) + ".e30.e30", b64({"alg": 1}) + ".e.e"]
)
def test_what_is_no_token(token: str):
    assert reason(token)


def test_a_long_token_is_not_looked_into(monkeypatch: pytest.MonkeyPatch):
    """Not even at its header, which a frame before login could make half a megabyte of JSON."""
    asked: list[str] = []
    monkeypatch.setattr(access_tokens, "_header", asked.append)
    assert f"over {access_tokens.TOKEN_BYTES_MAX} bytes" in reason("[" * 70_000)
    assert not asked


def test_a_token_without_a_key_id_needs_a_set_of_one_key():
    assert isinstance(validator().validate(FIRST.token({"kid": None})), AcceptedToken)
    assert "not in the key set" in reason(FIRST.token({"kid": None}), FIRST.key_set(OTHER))
    _, claims, signature = FIRST.token().split(".")
    header = b64({"alg": "ES256", "kid": 7})
    assert "no text" in reason(f"{header}.{claims}.{signature}")
    assert Source(FIRST.key_set()).keys.find(None) is not None
    assert Source(FIRST.key_set(OTHER)).keys.find(None) is None


# -- key sets ------------------------------------------------------------------------------


def test_a_key_that_is_not_known_has_the_set_fetched_again_but_not_often():
    source = Source(FIRST.key_set())
    assert source.keys.find("first")
    source.content = FIRST.key_set(OTHER)
    assert source.keys.find("other") is None  # it was fetched a moment ago
    for _ in range(100):
        source.keys.find("made up")
    assert source.fetched == 1
    source.now += UNKNOWN_KEY_S
    assert source.keys.find("other") is not None
    assert source.fetched == 2


def test_the_set_is_refreshed_and_a_failure_leaves_the_keys(caplog: pytest.LogCaptureFixture):
    source = Source(FIRST.key_set())
    assert source.keys.find("first")
    source.content = JwksError("it is gone")
    source.now += 60
    assert source.keys.find("first")
    assert source.keys.find("first")
    assert source.fetched == 2, "there is a pause after a failure"
    assert "it is gone" in caplog.text
    source.content, source.now = FIRST.key_set(OTHER), source.now + 30
    assert source.keys.find("other")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": []}', b"[" * 100_000]
)
def test_sets_that_are_none(content: bytes):
    with pytest.raises(JwksError):
        read_key_set(content)


def test_symmetric_keys_and_keys_for_encryption_are_left_out():
    keys = [
        {"kty": "oct", "kid": "a", "k": "AAAA"},
        {"kty": "RSA", "kid": "b", "use": "enc"},
        {"kty": "EC", "kid": "c"},
        "no key",
    ]
    assert list(read_key_set(json.dumps({"keys": keys}).encode())) == ["c"]


@pytest.mark.parametrize(
    "url",
    [
        *("http://issuer.example/keys", "ftp://a/b", "keys", "file:keys", "https://"),
        *("file://elsewhere/keys", "http://169.254.169.254/latest", "https://a:b"),
    ],
)
def test_urls_that_a_key_set_is_not_taken_from(url: str):
    assert check_url(url)


@pytest.mark.parametrize(
    "url", ["https://issuer.example/keys", "file:///keys", "http://127.0.0.1:1/", "http://[::1]/"]
)
def test_urls_that_it_is_taken_from(url: str):
    assert check_url(url) is None


def test_a_set_is_fetched_from_a_file_and_over_http(tmp_path: Path):
    path = tmp_path / "key set.json"
    path.write_bytes(FIRST.key_set())
    assert fetch_key_set(f"file://{tmp_path}/key%20set.json") == FIRST.key_set()
    with serving({"/keys": (200, FIRST.key_set())}) as url:
        assert fetch_key_set(f"{url}/keys") == FIRST.key_set()


def test_what_is_fetched_is_bounded_and_its_content_not_told(tmp_path: Path):
    path = tmp_path / "long"
    path.write_bytes(b"s" * (SET_BYTES_MAX + 1))
    answers = {
        "/long": (200, bytes(SET_BYTES_MAX + 1)),
        "/moved": (302, b"planted"),
        "/gone": (404, b"planted"),
    }
    with serving(answers) as url:
        for place in (f"file://{path}", f"{url}/long", f"{url}/moved", f"{url}/gone"):
            with pytest.raises(JwksError) as caught:
                fetch_key_set(place)
            assert "planted" not in str(caught.value)
    with pytest.raises(JwksError, match="cannot be read"):
        fetch_key_set("file:///nowhere")
    with pytest.raises(JwksError, match="does not answer"):
        fetch_key_set("http://127.0.0.1:1/")
