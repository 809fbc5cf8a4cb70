"""Who says in a world with guests what they may do: adds and removes ACLs, sets and deletes users.

One request at a time: once it is answered, it is known what controllers must hold (`promised`); and
one whose answer is lost with its controller leaves open whether it was done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fencepost.machines.image import ClusterImage, ScramMechanism
from fencepost.machines.image.acls import (
    WILDCARD,
    Acl,
    AclOperation,
    Pattern,
    PermissionType,
    ResourceType,
)
from fencepost.sim.brokers.guests import MECHANISM, user_of
from fencepost.sim.node import SimNode
from fencepost.sim.oracle import Violation
from fencepost.sim.surroundings import Surroundings
from fencepost.sim.workload import Asked
from fencepost.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from fencepost.wire.api.create_acls import AclCreation, CreateAclsRequest
from fencepost.wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

EVERY_MS: Final = 500
ITERATIONS: Final = 4_096
DENIES_ONE_IN: Final = 6
USERS_ONE_IN: Final = 4
_OPERATIONS: Final = (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.ALL)
_NAMES: Final = ((WILDCARD, Pattern.LITERAL), ("t", Pattern.PREFIXED))
Then = Callable[[Asked], None]


def _ignore(asked: Asked) -> None:
    """Nothing is kept of the answer."""


class Administrator:
    """See the module docstring."""

    def __init__(self, world: Surroundings) -> None:
        self._world = world
        self._lane = world.tape.lane("administrator")
        self._asked: Asked | None = None
        self._acls = 0
        self.promised: dict[Acl | str, bool] = {}
        """Of ACLs and users, whether they are there; unsure ones are out."""

    def begin(self) -> None:
        """Ask now and then until the world ends, if there are guests."""
        if self._world.options.guests:
            delay_us = 1_000 * (EVERY_MS // 2 + self._lane.pick(EVERY_MS))
            self._world.schedule_in(delay_us, "client", self._turn)

    def _turn(self) -> None:
        self.begin()
        workload = self._world.workload
        if self._asked is not None and self._asked in workload.waiting:
            return
        leading = [one for one in workload.reachable() if one.leads and not one.is_paused]
        if not leading:
            return
        node = leading[self._lane.pick(len(leading))]
        if self._lane.pick(USERS_ONE_IN) == USERS_ONE_IN - 1:
            guests = self._world.options.guest_ids
            user = user_of(guests[self._lane.pick(len(guests))])
            self.set_user(node, user, exists=self._lane.pick(2) == 0)
            return
        there = [one for one, exists in self.promised.items() if exists and isinstance(one, Acl)]
        if there and self._lane.pick(2):
            self.remove_acl(node, there[self._lane.pick(len(there))])
        else:
            self.add_acl(node, self._draw_acl())

    def _draw_acl(self) -> Acl:
        lane, guests = self._lane, self._world.options.guest_ids
        whom = lane.pick(len(guests) + 1)
        topics = [(name, Pattern.LITERAL) for name in sorted(self._world.workload.topics)]
        names = [*_NAMES, *topics, *((name, Pattern.PREFIXED) for name, _ in topics)]
        name, pattern = names[lane.pick(len(names))]
        denies = lane.pick(DENIES_ONE_IN) == DENIES_ONE_IN - 1
        return Acl(
            ResourceType.TOPIC,
            name,
            pattern,
            _OPERATIONS[lane.pick(len(_OPERATIONS))],
            "User:*" if whom == len(guests) else f"User:{user_of(guests[whom])}",
            WILDCARD,
            PermissionType.DENY if denies else PermissionType.ALLOW,
        )

    # -- what is asked -------------------------------------------------------------------------

    def add_acl(self, node: SimNode, acl: Acl, then: Then = _ignore) -> None:
        """Ask for an ACL."""
        creation = AclCreation(
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            resource_pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        self._acls += 1
        acl_id = Uuid(b"acl" + self._acls.to_bytes(13, "big"))
        request = CreateAclsRequest(creations=[creation])
        self.promised.pop(acl, None)
        self._asked = self._world.workload.submit(
            node,
            f"add {acl}",
            lambda controller: controller.security.decide_create_acls(request, iter([acl_id])),
            lambda asked: self._told(asked, acl, exists=True, then=then),
        )

    def remove_acl(self, node: SimNode, acl: Acl, then: Then = _ignore) -> None:
        """Ask for an ACL to go."""
        wanted = DeleteAclsFilter(
            resource_type_filter=acl.resource_type,
            resource_name_filter=acl.resource_name,
            pattern_type_filter=acl.pattern_type,
            principal_filter=acl.principal,
            host_filter=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        request = DeleteAclsRequest(filters=[wanted])
        self.promised.pop(acl, None)
        self._asked = self._world.workload.submit(
            node,
            f"remove {acl}",
            lambda controller: controller.security.decide_delete_acls(request),
            lambda asked: self._told(asked, acl, exists=False, then=then),
        )

    def set_user(self, node: SimNode, user: str, *, exists: bool, then: Then = _ignore) -> None:
        """Ask for a credential of a user, or for it to go."""
        number = int(MECHANISM)
        request = AlterUserScramCredentialsRequest()
        if exists:
            one = ScramCredentialUpsertion(
                name=user,
                mechanism=number,
                iterations=ITERATIONS,
                salt=b"salt",
                salted_password=user.encode(),
            )
            request.upsertions = [one]
        else:
            request.deletions = [ScramCredentialDeletion(name=user, mechanism=number)]
        self.promised.pop(user, None)
        self._asked = self._world.workload.submit(
            node,
            f"{'set' if exists else 'delete'} {user}",
            lambda controller: controller.security.decide_alter_scram_credentials(request),
            lambda asked: self._told(asked, user, exists=exists, then=then),
        )

    def _told(self, asked: Asked, what: Acl | str, *, exists: bool, then: Then) -> None:
        if asked.error is ErrorCode.NONE:
            rows = getattr(asked.reply, "results", None) or asked.reply.filter_results
            code = ErrorCode(rows[0].error_code)
            if code is ErrorCode.NONE or code is ErrorCode.RESOURCE_NOT_FOUND:
                self.promised[what] = exists
            else:
                raise Violation("unforeseen", f"{asked.name} is answered {code.name}")
        then(asked)

    def check_promises(self, image: ClusterImage) -> None:
        """What was answered to be done is in the image. Raises Violation."""
        acls = frozenset(image.acls.values())
        for what, exists in self.promised.items():
            is_there = what in acls if isinstance(what, Acl) else has_user(image, what)
            if is_there is not exists:
                raise Violation("I13", f"{what} is {'there' if is_there else 'gone'}")


def has_user(image: ClusterImage, user: str) -> bool:
    """Whether a user has a credential."""
    return (user, int(ScramMechanism(MECHANISM))) in image.scram
