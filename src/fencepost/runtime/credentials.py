"""The credentials that logins are checked against, looked up in the node's current image.

A credential is looked up for every login: a user that was removed cannot log in once the removal
has been applied to this node's image. Connections that are already authenticated stay as they are,
as in Kafka, until they authenticate again.
"""

from __future__ import annotations

from collections.abc import Callable

from fencepost.machines.image import ClusterImage, ScramCredential, ScramMechanism


class ImageScramCredentials:
    """SCRAM credentials of users."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image

    def find(self, user: str, mechanism: str) -> ScramCredential | None:
        """The credential of a user for a mechanism such as `SCRAM-SHA-256`, or None."""
        number = ScramMechanism.named(mechanism)
        return None if number is None else self._image().scram.get((user, int(number)))
