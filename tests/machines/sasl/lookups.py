"""Credentials in memory, for the servers of SASL."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping

from fencepost.machines.image.scram import ScramCredential, ScramMechanism
from fencepost.machines.sasl import TokenCredential
from fencepost.machines.scram_keys import credential_of_salted_password


def credential(
    mechanism: ScramMechanism, password: str, salt: bytes = b"salt of a user", rounds: int = 4096
) -> ScramCredential:
    """What a password becomes."""
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, rounds)
    return credential_of_salted_password(mechanism, salted, salt, rounds)


class Passwords:
    """PLAIN's, slow or at once."""

    def __init__(self, passwords: Mapping[str, str], is_slow: bool = False) -> None:
        self._passwords = passwords
        self._is_slow = is_slow
        self.checked: list[str] = []

    def check(self, user: str, password: bytes) -> bool | Callable[[], bool]:
        self.checked.append(user)
        known = self._passwords.get(user)
        is_right = known is not None and hmac.compare_digest(known.encode(), password)
        return (lambda: is_right) if self._is_slow else is_right


class Users:
    """SCRAM credentials by user and mechanism."""

    def __init__(self, credentials: Mapping[tuple[str, str], ScramCredential]) -> None:
        self._credentials = credentials

    def find(self, user: str, mechanism: str) -> ScramCredential | None:
        return self._credentials.get((user, mechanism))


class Tokens:
    """Delegation tokens by id."""

    def __init__(self, tokens: Mapping[str, TokenCredential]) -> None:
        self._tokens = tokens

    def find(self, token_id: str, mechanism: str) -> TokenCredential | None:
        return self._tokens.get(token_id)


def salted(password: str, salt: bytes, rounds: int = 4096) -> bytes:
    """What a client sends of a password for SCRAM-SHA-256 (KIP-554)."""
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds)
