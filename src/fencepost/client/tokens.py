"""Access tokens for SASL OAUTHBEARER: from the endpoint or the file; what is valid is kept.

A token is used for connections until four fifths of its lifetime are over, then asked for again:
by the wall clock or by the monotonic one, whichever says so first. The first may be set back, the
other may stop while a machine sleeps. A token from a file is read for each connection, since what
writes the file renews it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import NamedTuple

from fencepost.client.errors import AuthenticationFailed
from fencepost.client.protocol.oauthbearer import (
    ANSWER_BYTES_MAX,
    MECHANISM,
    AccessToken,
    checked_token,
    unsecured_token,
)
from fencepost.client.security import Security

TOKENS_MAX = 16
USED_PART_OF_LIFETIME = 0.8


class _KeptToken(NamedTuple):
    value: str
    until_wall_s: float
    until_monotonic_s: float

    @property
    def is_good(self) -> bool:
        """Whether it is to be used for another connection."""
        return time.time() < self.until_wall_s and time.monotonic() < self.until_monotonic_s


_kept: OrderedDict[Security, _KeptToken] = OrderedDict()
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
    # Every client comes by here, and HTTP is a third of what this package takes to import.
    from fencepost.client.token_endpoint import ask_endpoint

    with _lock:
        found = _kept.get(security)
        if found is not None and found.is_good:
            return found.value
        token = ask_endpoint(security)
        now_s = time.time()
        if token.expires_at_s is not None and token.expires_at_s > now_s:
            used_s = (token.expires_at_s - now_s) * USED_PART_OF_LIFETIME
            _kept[security] = _KeptToken(token.value, now_s + used_s, time.monotonic() + used_s)
            while len(_kept) > TOKENS_MAX:
                _kept.popitem(last=False)
        return token.value


def _from_file(path: str) -> AccessToken:
    try:
        with open(path, encoding="utf-8") as file:
            return checked_token(file.read(ANSWER_BYTES_MAX))
    except (OSError, UnicodeDecodeError) as error:
        raise AuthenticationFailed(f"the access token cannot be read: {error}") from error
