"""Access tokens for SASL OAUTHBEARER: asks the endpoint, reads the file, keeps what is valid.

A token is used for connections until four fifths of its lifetime are over, then asked for again. A
token from a file is read for each connection, since whoever writes the file renews it. Endpoints
that are out of reach or answer with a server error are tried again within
`sasl.login.retry.backoff.max.ms`, as Kafka's Java clients do. Redirects are not followed: they
would carry the client's secret to another place.
"""

from __future__ import annotations

import http.client
import threading
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from typing import Any
from urllib.parse import urlsplit

from fencepost.client.errors import AuthenticationFailed, ClientError, ConnectionFailed
from fencepost.client.protocol.oauthbearer import (
    MECHANISM,
    AccessToken,
    TokenSource,
    checked_token,
    credentials_request,
    endpoint_refusal,
    read_token_response,
    unsecured_token,
)
from fencepost.client.retry import Backoff, Deadline
from fencepost.client.security import Security

ANSWER_BYTES_MAX = 1 << 20
TOKENS_MAX = 16
USED_PART_OF_LIFETIME = 0.8

_kept: OrderedDict[Security, tuple[AccessToken, float]] = OrderedDict()
_lock = threading.Lock()


def access_token(security: Security) -> str | None:
    """The token to authenticate with; None where `security` is not for OAUTHBEARER.

    Blocks while the endpoint is asked. Raises AuthenticationFailed, or ConnectionFailed when the
    endpoint cannot be reached.
    """
    if not security.uses_sasl or security.mechanism != MECHANISM:
        return None
    source = security.tokens
    missing = source.missing()
    if missing is not None:
        raise AuthenticationFailed(f"OAUTHBEARER needs {missing}")
    if source.claims and source.endpoint_url is None:
        return unsecured_token(source, time.time()).value
    if source.file is not None:
        return _from_file(source.file).value
    with _lock:
        found = _kept.get(security)
        if found is not None and time.time() < found[1]:
            return found[0].value
        token = _from_endpoint(security)
        now = time.time()
        if token.expires_at_s is not None and token.expires_at_s > now:
            _kept[security] = token, now + (token.expires_at_s - now) * USED_PART_OF_LIFETIME
            while len(_kept) > TOKENS_MAX:
                _kept.popitem(last=False)
        return token.value


def _from_file(path: str) -> AccessToken:
    try:
        with open(path, encoding="utf-8") as file:
            return checked_token(file.read(ANSWER_BYTES_MAX))
    except (OSError, UnicodeDecodeError) as error:
        raise AuthenticationFailed(f"the access token cannot be read: {error}") from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def _from_endpoint(security: Security) -> AccessToken:
    source = security.tokens
    parts = urlsplit(source.endpoint_url or "")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise AuthenticationFailed(
            "sasl.oauthbearer.token.endpoint.url must be http, https or file"
        )
    handlers: list[Any] = [_NoRedirects()]
    if parts.scheme == "https":
        handlers.append(urllib.request.HTTPSHandler(context=security.tls_context()))
    opener = urllib.request.build_opener(*handlers)
    deadline = Deadline(source.login_backoff_max_ms)
    backoff = Backoff(source.login_backoff_ms, source.login_backoff_max_ms)
    while True:
        try:
            return _ask(opener, source)
        except ClientError as error:
            if not error.retriable or not backoff.sleep(deadline):
                raise


def _ask(opener: urllib.request.OpenerDirector, source: TokenSource) -> AccessToken:
    """One POST; errors that may pass are retriable."""
    headers, body = credentials_request(source)
    url = source.endpoint_url or ""
    host = urlsplit(url).netloc.rpartition("@")[2]
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")
    try:
        with opener.open(request, timeout=source.login_timeout_ms / 1000) as response:
            answer = response.read(ANSWER_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        with error:
            said = endpoint_refusal(error.code, error.read(ANSWER_BYTES_MAX))
        kind = ConnectionFailed if error.code >= 500 else AuthenticationFailed
        raise kind(f"the token endpoint refused: {said}", host=host) from error
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionFailed(f"the token endpoint does not answer: {error}", host=host) from error
    if len(answer) > ANSWER_BYTES_MAX:
        raise AuthenticationFailed("the token endpoint's answer is too long", host=host)
    return read_token_response(answer, time.time())
