"""The authorizer at work: it answers what handlers ask, and records its decisions.

Decisions are `machines.authorizer`'s. Each is counted. What a client has asked for is recorded by
an audit sink, if there is one, and in the log as Kafka's line: a refusal at INFO, the rest at
DEBUG. A question that only chooses what an answer contains is recorded in neither.

A client that is refused again and again for the same resource has a line in the log now and then,
which says how many were left out; and no clients together have more lines than `admit` lets
through.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from fencepost.machines.authorizer import AclAuthorizer, Decision
from fencepost.machines.image import ClusterImage
from fencepost.machines.image.acls import ResourceType
from fencepost.runtime.clock import Clocks
from fencepost.runtime.requests.access import Client
from fencepost.runtime.requests.audit import UNTOLD, AuditEvent, AuditSink, Tally
from fencepost.runtime.requests.permissions import Permission

log = logging.getLogger(__name__)

REFUSAL_INTERVAL_MS: Final = 10_000
"""How long no second line is written of a principal and a resource."""
REFUSALS_REMEMBERED: Final = 1_000
NAME_CHARACTERS: Final = 249
"""What is written of a resource's name: as much as a topic's may have."""
ANY_NAME: Final = "*"
"""The name in an audit line, where any resource will do."""

_TYPE_NAMES: Final = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}
"""The types as Kafka's audit line has them."""


class NodeAuthorizer:
    """The authorizer of one node; see the module docstring."""

    def __init__(
        self,
        machine: AclAuthorizer,
        clocks: Clocks,
        admit: Callable[[], int | None] = lambda: 0,
    ) -> None:
        """`admit` says whether another line may be written, and how many were left out."""
        self.machine = machine
        self.version = machine.version
        """Another object after every change of the ACLs."""
        self.sink: AuditSink | None = None
        """Where decisions are recorded; None: nowhere."""
        self.allowed = 0
        """How many questions were answered yes."""
        self.denied = 0
        """How many were answered no."""
        self.on_loaded: Callable[[], None] = lambda: None
        """Called when there are decisions about all clients: the ACLs are loaded."""
        self.on_changed: Callable[[], None] = lambda: None
        """Called when the ACLs have changed, so that clients may do something else than before."""
        self._clocks = clocks
        self._admit = admit
        # When the next line may be written of a principal and a resource, and how many were not.
        self._refusals: dict[tuple[str, int, str], list[int]] = {}
        self._latest: tuple[Client, Permission, str] | None = None

    def learn(self, image: ClusterImage) -> None:
        """Decide by the ACLs of this image from now on."""
        self.machine.learn(image.acls)
        if self.machine.version is not self.version:
            self.version = self.machine.version
            self.on_changed()

    def loaded(self) -> None:
        """What `learn` was given is all that is committed: all clients may be served."""
        if not self.machine.is_ready:
            self.machine.loaded()
            self.on_loaded()

    def allows(self, client: Client, permission: Permission, name: str, *, quiet: bool) -> bool:
        """See `runtime.requests.access.Authorizer`. Raises AuthorizerNotReadyError."""
        operation, kind = permission
        decision = self.machine.decide(client.principal, client.client_host, operation, kind, name)
        if decision.allowed and (quiet or not self._tells_all):
            self.allowed += 1  # as a rule that is all
            return True
        self._decided(client, permission, name, decision, quiet=quiet)
        return decision.allowed

    def grant(self, client: Client, permission: Permission, name: str) -> tuple[bool, Tally | None]:
        """See `runtime.requests.access.Authorizer`. Raises AuthorizerNotReadyError."""
        operation, kind = permission
        decision = self.machine.decide(client.principal, client.client_host, operation, kind, name)
        if not decision.allowed:
            self._decided(client, permission, name, decision, quiet=False)
            return False, None
        self.allowed += 1
        if not self._tells_all:
            return True, UNTOLD
        tally = self._tell(client, permission, name, decision)
        return True, None if log.isEnabledFor(logging.DEBUG) else tally

    def allows_any(self, client: Client, permission: Permission) -> bool:
        """See `runtime.requests.access.Authorizer`. Raises AuthorizerNotReadyError."""
        operation, kind = permission
        decision = self.machine.decide_any(client.principal, client.client_host, operation, kind)
        self._decided(client, permission, ANY_NAME, decision, quiet=False)
        return decision.allowed

    @property
    def _tells_all(self) -> bool:
        """Whether what is allowed is recorded, too."""
        return self.sink is not None or log.isEnabledFor(logging.DEBUG)

    # -- telling -------------------------------------------------------------------------------

    def _decided(
        self, client: Client, permission: Permission, name: str, decision: Decision, *, quiet: bool
    ) -> None:
        if decision.allowed:
            self.allowed += 1
        else:
            self.denied += 1
        if quiet or (decision.allowed and not self._tells_all):
            return
        if not decision.allowed:
            # What takes requests from their bytes leaves a refusal to what reads messages.
            latest, self._latest = self._latest, (client, permission, name)
            if latest is not None and latest[0] is client and latest[1:] == (permission, name):
                return
        self._tell(client, permission, name, decision)

    def _tell(
        self, client: Client, permission: Permission, name: str, decision: Decision
    ) -> Tally | None:
        """Tell the sink and the log; where more of the same is counted, if it need not be told."""
        tally = None
        if self.sink is not None:
            tally = self.sink.record(
                AuditEvent(
                    self._clocks.wall_ms(),
                    str(client.principal),
                    client.client_host,
                    client.listener_name,
                    client.api_name,
                    permission.operation.name,
                    permission.resource_type.name,
                    name,
                    decision.allowed,
                    decision.rule,
                )
            )
        if decision.allowed:
            log.debug("%s", _line(client, permission, name, decision))
            return tally
        left_out = self._refused(str(client.principal), permission, name)
        if left_out is not None:
            more = f" ({left_out} more refusals were left out)" if left_out else ""
            log.info("%s%s", _line(client, permission, name, decision), more)
        return tally

    def _refused(self, principal: str, permission: Permission, name: str) -> int | None:
        """How many lines were left out before this one; None if this one is to be left out."""
        key = (principal, permission.resource_type, name[:NAME_CHARACTERS])
        now_ms = self._clocks.now_ms()
        known = self._refusals.get(key)
        if known is not None and now_ms < known[0]:
            known[1] += 1
            return None
        before = self._admit()
        if before is None:
            return None
        if known is None and len(self._refusals) >= REFUSALS_REMEMBERED:
            self._refusals.clear()
        self._refusals[key] = [now_ms + REFUSAL_INTERVAL_MS, 0]
        return before + (0 if known is None else known[1])


def _line(client: Client, permission: Permission, name: str, decision: Decision) -> str:
    """Kafka's audit line; each resource is asked about by itself here, so its count is 1."""
    operation, kind = permission
    verdict = "Allowed" if decision.allowed else "Denied"
    return (
        f"Principal = {_shown(str(client.principal))} is {verdict} operation = {operation.name}"
        f" from host = {client.client_host} on resource ="
        f" {_TYPE_NAMES[kind]}:LITERAL:{_shown(name[:NAME_CHARACTERS])}"
        f" for request = {client.api_name} with resourceRefCount = 1"
        f" based on rule {_shown(decision.rule)}"
    )


def _shown(text: str) -> str:
    """A text that strangers may have chosen, on one line."""
    return text if text.isprintable() else ascii(text)
