"""Access tokens for SASL OAUTHBEARER: from the endpoint or the file; what is valid is kept.

A token is used for connections until four fifths of its lifetime are over, then asked for again. A
token from a file is read for each connection, since whoever writes the file renews it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

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
    # Every client comes by here, and HTTP is a third of what this package takes to import.
    from fencepost.client.token_endpoint import ask_endpoint

    with _lock:
        found = _kept.get(security)
        if found is not None and time.time() < found[1]:
            return found[0].value
        token = ask_endpoint(security)
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
