"""Principals, resources and operations on the command line: `ada`, `topic:orders`, `READ`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.cli.command_line import unknown_name
from fencepost.cli.failures import UsageError

if TYPE_CHECKING:
    from fencepost.machines.image.acls import AclOperation, ResourceType

RESOURCE = "TYPE:NAME"
RESOURCE_HELP = (
    "topic:NAME, group:NAME, transactional-id:NAME, delegation-token:ID, user:PRINCIPAL or cluster;"
    " NAME may be *"
)


def principal_of(text: str) -> str:
    """`ada` as `User:ada`; what has a type already stays as it is. UsageError."""
    kind, colon, name = text.partition(":")
    if not colon:
        kind, name = "User", text
    if not kind or not name:
        raise UsageError(f"{text!r} is no principal: it must be as ada or User:ada")
    return f"{kind}:{name}"


def operation_of(text: str) -> AclOperation:
    """`read`, `describe-configs` or `DESCRIBE_CONFIGS`. UsageError."""
    from fencepost.machines.image.acls import AclOperation

    known = {one.name: one for one in AclOperation if one > AclOperation.ANY}
    name = text.upper().replace("-", "_")
    if name not in known:
        raise UsageError(unknown_name("operation", name, known, f"there are {', '.join(known)}"))
    return known[name]


def operations_of(text: str) -> list[AclOperation]:
    """Several of them with commas in between. UsageError."""
    return [operation_of(part) for part in text.split(",")]


def resource_of(text: str) -> tuple[ResourceType, str]:
    """`topic:orders` as a type and a name; `cluster` needs no name. UsageError."""
    from fencepost.machines.image.acls import CLUSTER_NAME, ResourceType

    word, colon, name = text.partition(":")
    known = {
        one.name.lower().replace("_", "-"): one for one in ResourceType if one > ResourceType.ANY
    }
    kind = known.get(word.lower().replace("_", "-"))
    if kind is None:
        otherwise = f"there are {', '.join(known)}"
        raise UsageError(unknown_name("type of resource", word, known, otherwise))
    if kind is ResourceType.CLUSTER:
        if name not in ("", CLUSTER_NAME):
            raise UsageError(f"{text!r}: the cluster has no other name than {CLUSTER_NAME}")
        return kind, CLUSTER_NAME
    if not colon or not name:
        raise UsageError(f"{text!r}: must be {word}:NAME; NAME may be *")
    return kind, principal_of(name) if kind is ResourceType.USER and name != "*" else name
