"""What a delegation token's secret is made of (KIP-48): an HMAC of its id, which is not stored.

The client logs in with SCRAM; its user is the token's id, its password the HMAC in base64. So every
node with the same `delegation.token.secret.key` can check a login by the token's record alone.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from functools import lru_cache
from typing import Final

from fencepost.machines.image.scram import ScramCredential, ScramMechanism
from fencepost.machines.scram_keys import (
    ITERATIONS_MIN,
    credential_of_salted_password,
    salted_password,
)

HMAC_ALGORITHM: Final = "sha512"
STRETCHED_ITERATIONS: Final = 200_000
"""Of PBKDF2 over the secret: what each guess at it costs."""
_SALT_PREFIX: Final = b"\0salt of a delegation token\0"  # no token's id begins so


class TokenSecret:
    """`delegation.token.secret.key`, and what follows from it. Its `repr` does not show it."""

    __slots__ = ("_key",)

    def __init__(self, text: str) -> None:
        self._key = text.encode()

    @property
    def key_of_salts(self) -> bytes:
        """What salts are made of that strangers are shown: nothing that a weak secret could be
        guessed from quickly. Takes a moment, once."""
        return _stretched(self._key)

    def hmac_of(self, token_id: str) -> bytes:
        """The secret of a token: HMAC-SHA-512 of its id."""
        return hmac.digest(self._key, token_id.encode(), HMAC_ALGORITHM)

    def credential_of(self, token_id: str, mechanism: ScramMechanism) -> ScramCredential:
        """What a login with a token is checked against. This takes milliseconds: PBKDF2.

        All nodes make the same salt. Iterations are the least that there may be, as in Kafka: the
        password is no word that could be guessed.
        """
        password = b64encode(self.hmac_of(token_id))
        salted = f"{mechanism.mechanism_name}\0{token_id}".encode()
        salt = hmac.digest(self._key, _SALT_PREFIX + salted, "sha256")
        key = salted_password(mechanism, password, salt, ITERATIONS_MIN)
        return credential_of_salted_password(mechanism, key, salt, ITERATIONS_MIN)

    def __repr__(self) -> str:
        return "TokenSecret(<hidden>)"


@lru_cache(maxsize=1)
def _stretched(key: bytes) -> bytes:
    import hashlib  # what a node without tokens does not load

    return hashlib.pbkdf2_hmac("sha256", key, b"key of salts", STRETCHED_ITERATIONS)
