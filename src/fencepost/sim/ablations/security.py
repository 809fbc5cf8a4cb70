"""What may be done, and by whom, remembered for longer than it holds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from fencepost.machines.authorizer import AclAuthorizer
from fencepost.machines.image import ClusterImage, ScramCredential
from fencepost.runtime.authorizer import NodeAuthorizer
from fencepost.runtime.credentials import ImageScramCredentials
from fencepost.sim.ablations.ablation import Ablation, in_brokers, patched

among_guests = partial(in_brokers, having={"guests": 3})


def _learn_and_remember(self: AclAuthorizer, acls: Any) -> None:
    self._index.update(acls.changes_since(self._acls))
    self.version = object()
    self._acls = acls


def _learn_in_silence(self: NodeAuthorizer, image: ClusterImage) -> None:
    self.machine.learn(image.acls)


_find = ImageScramCredentials.find


def _find_what_was(
    self: ImageScramCredentials, user: str, mechanism: str
) -> ScramCredential | None:
    known: dict[tuple[str, str], ScramCredential] = self.__dict__.setdefault("known", {})
    found = _find(self, user, mechanism) or known.get((user, mechanism))
    if found is not None:
        known[user, mechanism] = found
    return found


TABLE: Final[Mapping[str, Ablation]] = {
    # S99: what was decided once is answered again, whatever has become of the ACLs.
    "decisions-outlive-acls": among_guests(
        "a client goes on doing what it was allowed to do before its ACL was removed",
        patched((AclAuthorizer, "learn", _learn_and_remember)),
        "S99",
    ),
    # S99: what handlers remember of topics is not void when the ACLs change.
    "grants-outlive-acls": among_guests(
        "a consumer reads on after its right to the topic was taken",
        patched((NodeAuthorizer, "learn", _learn_in_silence)),
        "S99",
    ),
    # S99: a credential that was found once is found for ever.
    "deleted-users-log-in": among_guests(
        "a user who was deleted logs in where they have logged in before",
        patched((ImageScramCredentials, "find", _find_what_was)),
        "S99",
    ),
}
