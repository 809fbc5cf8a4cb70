"""The endpoint that gives access tokens for SASL OAUTHBEARER, asked over HTTP.

Endpoints that are out of reach or answer with a server error are tried again within
`sasl.login.retry.backoff.max.ms`, as Kafka's Java clients do. Redirects are not followed: they
would carry the client's secret to another place.
"""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from fencepost.client.errors import AuthenticationFailed, ClientError, ConnectionFailed
from fencepost.client.protocol.oauthbearer import (
    ANSWER_BYTES_MAX,
    AccessToken,
    TokenSource,
    credentials_request,
    endpoint_refusal,
    read_token_response,
)
from fencepost.client.retry import Backoff, Deadline
from fencepost.client.security import Security


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def ask_endpoint(security: Security) -> AccessToken:
    """A new token. AuthenticationFailed when it is refused, ConnectionFailed when the endpoint
    cannot be reached in time."""
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
