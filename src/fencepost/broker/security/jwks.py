"""The keys that access tokens are signed with: a JSON Web Key Set (RFC 7517), fetched and kept.

`sasl.oauthbearer.jwks.endpoint.url` says where it is: https, a file, or http on this machine. It
must be listed in `fencepost.sasl.oauthbearer.allowed.urls`, so that a configuration that names
another place takes two changes. It is never taken from a token. The set is read again every
`sasl.oauthbearer.jwks.endpoint.refresh.ms`, and when a token names a key that is not in it, which
anybody can send: so at most once in `UNKNOWN_KEY_S` for that. A fetch that fails leaves the keys as
they were, and is tried again after a pause that grows.

Everything here blocks, and is for threads. One of them fetches; the others go on with the keys that
are there.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import logging
import random
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from fencepost.machines.backoff import backoff_ms

log = logging.getLogger(__name__)

SET_BYTES_MAX: Final = 1 << 20
KEYS_MAX: Final = 1_000
FETCH_S: Final = 10.0
"""How long a fetch may take."""
UNKNOWN_KEY_S: Final = 10.0
"""How long a fetch for a key that is not known is not repeated."""
CHUNK_BYTES: Final = 64 * 1024


class JwksError(Exception):
    """A key set that cannot be had; the text has nothing of its content."""


class JwksRules(Struct, frozen=True):
    """Where a key set is, and how often it is fetched."""

    url: str
    refresh_ms: int
    retry_ms: int
    retry_max_ms: int


class KeySetSource:
    """See the module. `clock` gives seconds of a monotonic clock."""

    def __init__(
        self,
        rules: JwksRules,
        *,
        clock: Callable[[], float] = time.monotonic,
        fetch: Callable[[str], bytes] | None = None,
    ) -> None:
        self._rules = rules
        self._clock = clock
        self._fetch = fetch_key_set if fetch is None else fetch
        self._lock = threading.Lock()
        self._keys: Mapping[str | None, Any] | None = None
        self._fetched_at = self._tried_at = self._not_before = float("-inf")
        self._failures = 0

    def find(self, key_id: str | None) -> Mapping[str, Any] | None:
        """The key of that id, as the set has it, or the only one if there is one and the token
        names none; None if there is no such key."""
        # A thread that has keys to go on with does not wait for another's fetch.
        if self._is_due(key_id) and self._lock.acquire(blocking=self._keys is None):
            try:
                if self._is_due(key_id):
                    self._try()
            finally:
                self._lock.release()
        keys = self._keys or {}
        if key_id is None:
            return next(iter(keys.values())) if len(keys) == 1 else None
        return keys.get(key_id)

    def _is_due(self, key_id: str | None) -> bool:
        now = self._clock()
        if now < self._not_before:
            return False
        if self._keys is None or now - self._fetched_at >= self._rules.refresh_ms / 1000:
            return True
        is_unknown = key_id is not None and key_id not in self._keys
        return is_unknown and now - self._tried_at >= UNKNOWN_KEY_S

    def _try(self) -> None:
        self._tried_at = now = self._clock()
        try:
            self._keys = read_key_set(self._fetch(self._rules.url))
        except JwksError as error:
            rules = self._rules
            factor = backoff_ms(
                self._failures, max(1, rules.retry_ms), rules.retry_max_ms, random.random()
            )
            self._failures += 1
            self._not_before = now + factor / 1000
            log.warning("the keys of access tokens cannot be fetched: %s", error)
        else:
            self._failures = 0
            self._fetched_at = now


def read_key_set(data: bytes) -> dict[str | None, Mapping[str, Any]]:
    """The public keys of a set, by id. JwksError.

    Symmetric keys are left out: a token that is signed with one could be signed by its reader.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise JwksError("the key set is no JSON") from None
    keys = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(keys, list) or len(keys) > KEYS_MAX:
        raise JwksError(f"the key set has no list of at most {KEYS_MAX} keys")
    found: dict[str | None, Mapping[str, Any]] = {}
    for key in keys:
        if not isinstance(key, dict) or key.get("kty") not in ("RSA", "EC", "OKP"):
            continue
        if key.get("use", "sig") != "sig":
            continue
        key_id = key.get("kid")
        if key_id is None or isinstance(key_id, str):
            found[key_id] = key
    if not found:
        raise JwksError("the key set has no key for signatures")
    return found


def check_url(url: str) -> str | None:
    """What is wrong with the URL of a key set; None if nothing is."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "a URL"
    if parts.scheme == "file":
        is_here = parts.netloc in ("", "localhost") and url[5:].startswith("/")
        return None if is_here else "file:///PATH"
    if parts.scheme == "https" and host:
        return None
    if parts.scheme == "http" and host and _is_loopback(host):
        return None
    return "a URL with https or file (http only for this machine itself)"


def fetch_key_set(url: str) -> bytes:
    """What is at the URL. JwksError; redirects are not followed."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return _read_file(unquote(parts.path))
    host = parts.hostname or ""
    connection = (
        http.client.HTTPSConnection(
            host, parts.port, timeout=FETCH_S, context=ssl.create_default_context()
        )
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, parts.port, timeout=FETCH_S)
    )
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise JwksError(f"{parts.scheme}://{parts.netloc} answers {response.status}")
        return _read_response(response)
    except (OSError, http.client.HTTPException) as error:
        reason = f"{parts.scheme}://{parts.netloc} does not answer: {type(error).__name__}"
        raise JwksError(reason) from None
    finally:
        connection.close()


def _read_response(response: http.client.HTTPResponse) -> bytes:
    until = time.monotonic() + FETCH_S
    content = bytearray()
    while chunk := response.read1(CHUNK_BYTES):
        content += chunk
        if len(content) > SET_BYTES_MAX:
            raise JwksError(f"the key set is over {SET_BYTES_MAX} bytes")
        if time.monotonic() > until:
            raise JwksError(f"the key set did not arrive within {FETCH_S:.0f} s")
    return bytes(content)


def _read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(SET_BYTES_MAX + 1)
    except OSError as error:
        raise JwksError(f"the file cannot be read: {error.strerror}") from None
    if len(content) > SET_BYTES_MAX:
        raise JwksError(f"the key set is over {SET_BYTES_MAX} bytes")
    return content


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
