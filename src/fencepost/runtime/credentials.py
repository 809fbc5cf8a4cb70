"""The credentials that logins are checked against, looked up in the node's current image.

A credential is looked up for every login: a user that was removed cannot log in once the removal
has been applied to this node's image. Connections that are already authenticated stay as they are,
as in Kafka, until they authenticate again.
"""

from __future__ import annotations

from collections.abc import Callable

from fencepost.machines.image import ClusterImage, ScramCredential, ScramMechanism
from fencepost.machines.image.scram import ScramImage


class ImageScramCredentials:
    """SCRAM credentials of users."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image
        self._counted: ScramImage | None = None
        self._iterations: dict[int, tuple[int, ...]] = {}

    def find(self, user: str, mechanism: str) -> ScramCredential | None:
        """The credential of a user for a mechanism such as `SCRAM-SHA-256`, or None."""
        number = ScramMechanism.named(mechanism)
        return None if number is None else self._image().scram.get((user, int(number)))

    def iterations(self, mechanism: str) -> tuple[int, ...]:
        """The numbers of iterations that credentials of a mechanism have, in order. All users are
        looked at, once after each change of one."""
        present, number = self._image().scram, ScramMechanism.named(mechanism)
        if present is not self._counted:
            found = {(kind, one.iterations) for (_, kind), one in present.items()}
            self._iterations = {
                int(each): tuple(sorted(count for kind, count in found if kind == each))
                for each in ScramMechanism
            }
            self._counted = present
        return () if number is None else self._iterations[int(number)]
