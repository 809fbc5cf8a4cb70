"""Access tokens that are JSON Web Tokens (RFC 7519): whether they are signed by a known key, and
claim what they have to. `joserfc` (extra `security`) verifies signatures.

The algorithm is one of a list: none that is unsigned or symmetric, whatever a token's header says.
The key is the configured set's, by the id in the header; keys and addresses of keys that a header
brings along are not looked at. Everything here takes milliseconds, and is for a thread.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.broker.security.jwks import KeySetSource
from fencepost.machines.sasl import AcceptedToken, ClaimRules, RejectedToken, check_claims

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
TOKEN_BYTES_MAX: Final = 64 * 1024


class TokenValidator:
    """See the module. `wall_ms` gives milliseconds since 1970. ImportError without the extra."""

    def __init__(self, keys: KeySetSource, rules: ClaimRules, wall_ms: Callable[[], int]) -> None:
        from joserfc import jwk, jws
        from joserfc.errors import JoseError

        self._import_key = jwk.JWKRegistry.import_key
        self._verify = jws.deserialize_compact
        self._registry = jws.JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
        self._registry.max_payload_length = TOKEN_BYTES_MAX
        self._registry.max_header_length = TOKEN_BYTES_MAX
        self._error = JoseError
        self._keys = keys
        self._rules = rules
        self._wall_ms = wall_ms

    def validate(self, token: str) -> AcceptedToken | RejectedToken:
        """Judge a token; blocks."""
        if len(token) > TOKEN_BYTES_MAX:
            return RejectedToken(f"it is over {TOKEN_BYTES_MAX} bytes")
        header = _header(token)
        if header is None:
            return RejectedToken("it is no signed JSON Web Token")
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            return RejectedToken("it is signed by an algorithm that is not allowed, or not signed")
        if key_id is not None and not isinstance(key_id, str):
            return RejectedToken("the id of its key is no text")
        key = self._keys.find(key_id)
        if key is None:
            return RejectedToken("its key is not in the key set")
        if key.get("alg", algorithm) != algorithm:
            return RejectedToken("its key is for another algorithm")
        try:
            signed = self._verify(token, self._import_key(dict(key)), registry=self._registry)
            claims = json.loads(signed.payload)
        except (self._error, ValueError, TypeError, KeyError, RecursionError) as error:
            return RejectedToken(f"its signature cannot be verified ({type(error).__name__})")
        if not isinstance(claims, dict):
            return RejectedToken("its claims are no JSON object")
        return check_claims(claims, self._rules, self._wall_ms())


def _header(token: str) -> Mapping[str, Any] | None:
    parts = token.split(".")
    if len(parts) != 3 or not all(parts):
        return None
    padded = parts[0] + "=" * (-len(parts[0]) % 4)
    try:
        header = json.loads(base64.urlsafe_b64decode(padded))
    except (ValueError, RecursionError, binascii.Error):
        return None
    return header if isinstance(header, dict) else None
