"""Delegation tokens as what logins are checked against, looked up in the node's current image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fencepost.machines.image import ClusterImage, ScramCredential, ScramMechanism
from fencepost.machines.image.token_secret import TokenSecret
from fencepost.machines.sasl import TokenCredential
from fencepost.machines.session import USER, Principal

CREDENTIALS_KEPT: Final = 10_000
"""Credentials of tokens that are kept: each takes milliseconds to make."""


class ImageTokenCredentials:
    """The tokens of the cluster, for the mechanisms of SCRAM.

    A token that has expired is no credential, also while the controller has not removed it yet. Nor
    is one whose owner is no `User`: a login is a user's, and this owner is not the user of its
    name.
    """

    def __init__(
        self, image: Callable[[], ClusterImage], secret: TokenSecret, wall_ms: Callable[[], int]
    ) -> None:
        self._image = image
        self._secret = secret
        self._wall_ms = wall_ms
        self._made: dict[tuple[str, ScramMechanism], ScramCredential] = {}

    def find(self, token_id: str, mechanism: str) -> TokenCredential | None:
        """What a client with that token, for a mechanism such as `SCRAM-SHA-256`, has to know."""
        number, token = ScramMechanism.named(mechanism), self._image().tokens.get(token_id)
        if number is None or token is None or token.is_expired(self._wall_ms()):
            return None
        owner = Principal.parse(token.owner)
        if owner.type != USER:
            return None
        credential = self._made.get((token_id, number))
        if credential is None:
            credential = self._secret.credential_of(token_id, number)
            if len(self._made) >= CREDENTIALS_KEPT:
                del self._made[next(iter(self._made))]
            self._made[token_id, number] = credential
        return TokenCredential(credential, owner, token.expiration_timestamp)
