"""The credentials that logins are checked against, looked up in the node's current image.

A credential is looked up for every login: a user that was removed cannot log in once the removal
has been applied to this node's image. Connections that are already authenticated stay as they are,
as in Kafka, until they authenticate again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from fencepost.machines.image import ClusterImage, ScramCredential, ScramMechanism
from fencepost.machines.image.token_secret import TokenSecret
from fencepost.machines.session import Principal

CREDENTIALS_KEPT: Final = 10_000
"""Credentials of tokens that are kept: each takes milliseconds to make."""


class ImageScramCredentials:
    """SCRAM credentials of users."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image

    def find(self, user: str, mechanism: str) -> ScramCredential | None:
        """The credential of a user for a mechanism such as `SCRAM-SHA-256`, or None."""
        number = ScramMechanism.named(mechanism)
        return None if number is None else self._image().scram.get((user, int(number)))


class TokenLogin(NamedTuple):
    """What a login with a delegation token is checked against, and what comes of it."""

    credential: ScramCredential
    owner: Principal
    """The client's principal once it has logged in."""
    expires_ms: int
    """When the token expires unless it is renewed, in milliseconds since 1970."""


class ImageTokenCredentials:
    """Delegation tokens as credentials; none where `delegation.token.secret.key` is not set.

    A token that has expired is no credential, also while the controller has not removed it yet.
    """

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        secret: TokenSecret | None,
        wall_ms: Callable[[], int],
    ) -> None:
        self._image = image
        self._secret = secret
        self._wall_ms = wall_ms
        self._made: dict[tuple[str, ScramMechanism], ScramCredential] = {}

    def find(self, token_id: str, mechanism: str) -> TokenLogin | None:
        """What a client with that token, for a mechanism such as `SCRAM-SHA-256`, has to know."""
        number, token = ScramMechanism.named(mechanism), self._image().tokens.get(token_id)
        if self._secret is None or number is None or token is None:
            return None
        if token.is_expired(self._wall_ms()):
            return None
        credential = self._made.get((token_id, number))
        if credential is None:
            credential = self._secret.credential_of(token_id, number)
            if len(self._made) >= CREDENTIALS_KEPT:
                del self._made[next(iter(self._made))]
            self._made[token_id, number] = credential
        return TokenLogin(
            credential,
            principal_of(token.owner, token_authenticated=True),
            token.expiration_timestamp,
        )


def principal_of(text: str, *, token_authenticated: bool = False) -> Principal:
    """The principal of a text such as `User:ada`, as records have them."""
    kind, _, name = text.partition(":")
    return Principal(kind, name, token_authenticated)
