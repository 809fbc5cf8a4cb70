"""SASL OAUTHBEARER (RFC 7628; KIP-255, KIP-768) without I/O: where tokens come from, and what is
said with one.

A `TokenSource` is one of three: an endpoint that gives tokens for a client's id and secret (the
client credentials grant of RFC 6749, section 4.4), a file that has the token (an endpoint URL that
begins with file:), or claims for an unsecured token, which brokers take only in tests. What goes
to the endpoint and what its answer says is decided here; `client.token_endpoint` asks.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from fencepost.client.errors import AuthenticationFailed

MECHANISM: Final = "OAUTHBEARER"
UNSECURED_LIFETIME_S: Final = 3600
ANSWER_BYTES_MAX: Final = 1 << 20
"""What is read at most of a file with a token, or of an endpoint's answer."""
# RFC 6750: what a bearer token consists of. Anything else could end the field it travels in.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7E \t\r\n]+")
_REASON_MAX: Final = 300
"""Characters of a stranger's text that go into an error."""


@dataclass(frozen=True, slots=True)
class TokenSource:
    """Where access tokens come from; plain data, travels in pickles, and hides its secret."""

    endpoint_url: str | None = None
    oauth_client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    header_urlencode: bool = False
    extensions: tuple[tuple[str, str], ...] = ()
    claims: tuple[tuple[str, str], ...] = ()  # unsecuredLogin... options by name
    login_timeout_ms: int = 10_000
    login_backoff_ms: int = 100
    login_backoff_max_ms: int = 10_000

    @property
    def file(self) -> str | None:
        """The path of the file that has the token, for endpoint URLs that begin with file:."""
        url = self.endpoint_url or ""
        return (
            url.removeprefix("file://").removeprefix("file:") if url.startswith("file:") else None
        )

    def missing(self) -> str | None:
        """What has to be given yet before a token can be had; None when it can."""
        if self.claims or self.file:
            return None
        if self.endpoint_url is None:
            return "sasl.oauthbearer.token.endpoint.url"
        if not self.oauth_client_id or self.client_secret is None:
            return (
                "sasl.oauthbearer.client.credentials.client.id and .secret, or clientId and "
                "clientSecret in sasl.jaas.config"
            )
        return None


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token, and when it expires (seconds since 1970; None: not said)."""

    value: str = field(repr=False)
    expires_at_s: float | None = None


def credentials_request(source: TokenSource) -> tuple[dict[str, str], bytes]:
    """Headers and body of the POST that asks the endpoint for a token."""
    name, secret = source.oauth_client_id or "", source.client_secret or ""
    if source.header_urlencode:
        name, secret = quote_plus(name), quote_plus(secret)
    basic = base64.b64encode(f"{name}:{secret}".encode()).decode()
    form = {"grant_type": "client_credentials"}
    if source.scope:
        form["scope"] = source.scope
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {basic}",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    return headers, urlencode(form).encode()


def read_token_response(body: bytes, now_s: float) -> AccessToken:
    """The token in an endpoint's answer. AuthenticationFailed for an answer that has none."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise AuthenticationFailed("the token endpoint's answer is not a JSON object")
    for name in ("access_token", "id_token"):
        if isinstance(answer.get(name), str):
            lifetime = answer.get("expires_in")
            known = isinstance(lifetime, (int, float))
            return checked_token(answer[name], now_s + float(lifetime or 0) if known else None)
    raise AuthenticationFailed("the token endpoint's answer has no access_token")


def checked_token(text: str, expires_at_s: float | None = None) -> AccessToken:
    """`text` as a token, with the expiry that it names itself if it is a JWT and none is given.

    AuthenticationFailed for what cannot be a bearer token.
    """
    value = text.strip()
    if _TOKEN.fullmatch(value) is None:
        raise AuthenticationFailed("the access token is empty or has characters no token may have")
    return AccessToken(value, _expiry_in(value) if expires_at_s is None else expires_at_s)


def _expiry_in(token: str) -> float | None:
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error):
        return None


def endpoint_refusal(status: int, body: bytes) -> str:
    """What an endpoint says with an error status (RFC 6749, section 5.2), for error texts."""
    try:
        said = json.loads(body)
        parts = [said[name] for name in ("error", "error_description") if said.get(name)]
        reason = ": ".join(str(part) for part in parts)
    except (ValueError, AttributeError, RecursionError):
        reason = ""
    return f"HTTP status {status}" + (f", {reason[:_REASON_MAX]}" if reason else "")


# -- unsecured tokens --------------------------------------------------------------------------


def unsecured_token(source: TokenSource, now_s: float) -> AccessToken:
    """A token without a signature (RFC 7515, appendix A.5) of the claims that `source` names.

    AuthenticationFailed for claims of which none can be made.
    """
    options = dict(source.claims)
    try:
        lifetime_s = float(options.get("unsecuredLoginLifetimeSeconds", UNSECURED_LIFETIME_S))
        claims = _claims(options)
    except ValueError as error:
        raise AuthenticationFailed(f"an unsecured token cannot be made: {error}") from None
    principal = options.get("unsecuredLoginPrincipalClaimName", "sub")
    if not isinstance(claims.get(principal), str):
        raise AuthenticationFailed(
            f"an unsecured token needs unsecuredLoginStringClaim_{principal} in sasl.jaas.config"
        )
    expires_at_s = now_s + lifetime_s
    claims = {**claims, "iat": now_s, "exp": expires_at_s}
    parts = [_encoded({"alg": "none"}), _encoded(claims), ""]
    return AccessToken(".".join(parts), expires_at_s)


def _claims(options: dict[str, str]) -> dict[str, Any]:
    """The claims by the prefixes of Kafka's unsecured login; a list begins with its separator."""
    claims: dict[str, Any] = {}
    for name, value in options.items():
        if name.startswith("unsecuredLoginStringClaim_"):
            claims[name.partition("_")[2]] = value
        elif name.startswith("unsecuredLoginNumberClaim_"):
            claims[name.partition("_")[2]] = float(value)
        elif name.startswith("unsecuredLoginListClaim_"):
            claims[name.partition("_")[2]] = value[1:].split(value[0]) if value else []
    return claims


def _encoded(content: dict[str, Any]) -> str:
    text = json.dumps(content, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


# -- the exchange ------------------------------------------------------------------------------


class OAuthBearerExchange:
    """RFC 7628: one message with the token; an answer with content is a refusal."""

    def __init__(self, token: str, extensions: tuple[tuple[str, str], ...] = ()) -> None:
        for name, value in extensions:
            if not _EXTENSION_NAME.fullmatch(name) or name == "auth":
                raise AuthenticationFailed(f"extension_{name} is no name of a SASL extension")
            if not _EXTENSION_VALUE.fullmatch(value):
                raise AuthenticationFailed(f"extension_{name} has a value that cannot be sent")
        pairs = [("auth", f"Bearer {token}"), *extensions]
        text = "".join(f"{name}={value}\x01" for name, value in pairs)
        self._message = f"n,,\x01{text}\x01".encode()
        self.done = False

    def first(self) -> bytes:
        self.done = True
        return self._message

    def next(self, challenge: bytes) -> bytes:
        raise AuthenticationFailed("the broker continued an OAUTHBEARER exchange that was over")

    def finish(self, last: bytes) -> None:
        """AuthenticationFailed with what the broker says against the token, if it does."""
        if last:
            said = last[:_REASON_MAX].decode(errors="replace")
            raise AuthenticationFailed(f"the broker refused the access token: {said}")
