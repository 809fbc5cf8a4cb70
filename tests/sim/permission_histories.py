"""What brokers tell guests, and should not."""

from __future__ import annotations

from collections.abc import Callable

from fencepost.machines.image.acls import Acl, AclOperation, Pattern, PermissionType, ResourceType
from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle
from fencepost.sim.permission_oracle import CredentialTold, PermissionTold, Question

Wrong = Callable[[Check], object]
ADA = "User:ada"
READ = Question(ADA, "host", AclOperation.READ, "t1")
NONE: tuple[Acl, ...] = ()


def acl(
    operation: AclOperation = AclOperation.READ,
    name: str = "t1",
    *,
    prefixed: bool = False,
    principal: str = ADA,
    denies: bool = False,
) -> Acl:
    """One that is about topics."""
    return Acl(
        ResourceType.TOPIC,
        name,
        Pattern.PREFIXED if prefixed else Pattern.LITERAL,
        operation,
        principal,
        "*",
        PermissionType.DENY if denies else PermissionType.ALLOW,
    )


ONE = (acl(),)


def tell(
    check: Check,
    allowed: bool,
    before: tuple[Acl, ...],
    now: tuple[Acl, ...],
    *,
    broker_id: int = 1,
    may_be_old: bool = True,
) -> None:
    """A broker answers ada, who reads t1."""
    told = PermissionTold(READ, allowed, before, now, 7, may_be_old)
    check.permission_told(Oracle(), broker_id, told)


WRONG: list[tuple[str, str, Wrong]] = [
    ("I55", "a right that no ACL gives", lambda check: tell(check, True, NONE, NONE)),
    ("I55", "a right that is refused", lambda check: tell(check, False, ONE, ONE)),
    (
        "I55",
        "records for a right that was taken while the fetch waited",
        lambda check: tell(check, True, ONE, NONE, may_be_old=False),
    ),
    (
        "I55",
        "brokers of one image that decide differently",
        lambda check: (
            tell(check, True, ONE, ONE),
            tell(check, False, NONE, NONE, broker_id=2),
        ),
    ),
    (
        "I56",
        "a user who was deleted",
        lambda check: check.credential_told(Oracle(), 1, CredentialTold("ada", True, False)),
    ),
    (
        "I56",
        "a user who is not found",
        lambda check: check.credential_told(Oracle(), 1, CredentialTold("ada", False, True)),
    ),
]
