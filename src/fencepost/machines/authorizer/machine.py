"""The authorizer of a node: what is configured, the ACLs of its image, and what it has decided.

A decision is remembered until the ACLs change, for as many clients and resources as there is room
for; then all are forgotten. So a question that has been asked costs one look into a dict, and no
answer is older than the ACLs that the node has.
"""

from __future__ import annotations

from typing import Final

from fencepost.machines.authorizer.decision import Asker, Decision, Policy, decide, decide_any
from fencepost.machines.authorizer.hosts import client_host
from fencepost.machines.authorizer.index import AclIndex
from fencepost.machines.image.acls import Acl
from fencepost.machines.image.persistent import PersistentMap
from fencepost.machines.session import Principal
from fencepost.wire.types import Uuid

DECISIONS_MAX: Final = 20_000
"""How many decisions are remembered."""
TEXT_MAX: Final = 512
"""How long the names of what is remembered may be together, in characters."""

Acls = PersistentMap[Uuid, Acl]


class AclAuthorizer:
    """See the module docstring."""

    __slots__ = ("_acls", "_decisions", "_index", "is_ready", "policy", "version")

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.is_ready = False
        """Whether the ACLs are loaded, so that there are decisions about all clients."""
        self.version = object()
        """Another object when the ACLs have changed, so that what was decided before is void."""
        self._acls: Acls = PersistentMap()
        self._index = AclIndex()
        self._decisions: dict[tuple[object, ...], Decision] = {}

    @property
    def acl_count(self) -> int:
        """How many ACLs there are."""
        return self._index.count

    def learn(self, acls: Acls) -> None:
        """These are the ACLs from now on."""
        if acls is self._acls:
            return
        self._index.update(acls.changes_since(self._acls))
        self.version = object()
        self._acls = acls
        self._decisions.clear()

    def loaded(self) -> None:
        """What `learn` was given is all that is committed: clients may be served."""
        self.is_ready = True

    def decide(
        self, principal: Principal, host: str, operation: int, kind: int, name: str
    ) -> Decision:
        """See `decision.decide`; raises AuthorizerNotReadyError."""
        key = (principal.type, principal.name, host, operation, kind, name)
        decision = self._decisions.get(key)
        if decision is None:
            asker = Asker.of(principal, client_host(host))
            index = self._index if self.is_ready else None
            decision = decide(index, self.policy, asker, operation, kind, name)
            self._remember(key, len(name) + len(principal.name) + len(host), decision)
        return decision

    def decide_any(self, principal: Principal, host: str, operation: int, kind: int) -> Decision:
        """See `decision.decide_any`; raises AuthorizerNotReadyError."""
        key = (principal.type, principal.name, host, operation, kind, None)
        decision = self._decisions.get(key)
        if decision is None:
            asker = Asker.of(principal, client_host(host))
            index = self._index if self.is_ready else None
            decision = decide_any(index, self.policy, asker, operation, kind)
            self._remember(key, len(principal.name) + len(host), decision)
        return decision

    def _remember(self, key: tuple[object, ...], text: int, decision: Decision) -> None:
        if text > TEXT_MAX:
            return
        if len(self._decisions) >= DECISIONS_MAX:
            self._decisions.clear()
        self._decisions[key] = decision
