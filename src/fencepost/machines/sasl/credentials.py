"""What the mechanisms look up: ports, which the metadata image or a file fulfils."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from fencepost.machines.image.scram import ScramCredential
from fencepost.machines.session import Principal


class PlainPasswords(Protocol):
    """The passwords of PLAIN."""

    def check(self, user: str, password: bytes) -> bool | Callable[[], bool]:
        """Whether the user has this password; or what finds out, for a thread, where that takes
        long. It takes as long for a user that does not exist."""
        ...


class ScramCredentials(Protocol):
    """What users have for SCRAM."""

    def find(self, user: str, mechanism: str) -> ScramCredential | None:
        """The user's credential for this mechanism, by its name; None if there is none."""
        ...


class TokenCredential(Struct, frozen=True):
    """A delegation token, for a login with it."""

    credential: ScramCredential
    """What the token's password is held against."""
    owner: Principal
    """The owner, whose login it is."""
    expires_ms: int
    """In milliseconds since 1970."""


class TokenCredentials(Protocol):
    """Delegation tokens (KIP-48)."""

    def find(self, token_id: str, mechanism: str) -> TokenCredential | None:
        """The token with this id, for this mechanism; None if there is none that is valid."""
        ...
