"""What a broker has decided about a guest, and what the ACLs that it had say to that.

`is_allowed` goes by the rules of KIP-801 for a single client, and looks at every ACL: it has no
index, remembers nothing, and shares no code with the authorizer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from fencepost.machines.image.acls import (
    WILDCARD,
    Acl,
    AclOperation,
    Pattern,
    PermissionType,
    ResourceType,
)

IMPLY_DESCRIBE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DELETE,
    AclOperation.ALTER,
)


class Question(NamedTuple):
    """Whether a principal at an address may do that to a topic."""

    principal: str
    """`User:name`."""
    host: str
    operation: int
    topic: str


class PermissionTold(NamedTuple):
    """A broker's answer to a guest. The ACLs are those of the broker's image when the request came,
    and now."""

    question: Question
    allowed: bool
    before: Collection[Acl]
    now: Collection[Acl]
    offset: int
    """Of the image now."""
    may_be_old: bool
    """Whether the answer may go by the ACLs when the request came."""


class CredentialTold(NamedTuple):
    """A broker has looked up a user who logs in; `exists` says whether the image has them."""

    user: str
    found: bool
    exists: bool


def is_allowed(question: Question, acls: Collection[Acl]) -> bool:
    """What these ACLs say; no client may use a resource that none is about."""
    operations = {AclOperation.ALL, question.operation}
    about = [acl for acl in acls if _is_about(acl, question)]
    if any(a.permission == PermissionType.DENY and a.operation in operations for a in about):
        return False
    if question.operation == AclOperation.DESCRIBE:
        operations.update(IMPLY_DESCRIBE)
    return any(a.permission == PermissionType.ALLOW and a.operation in operations for a in about)


def _is_about(acl: Acl, question: Question) -> bool:
    """Whether the ACL is about that topic, for that principal at that address."""
    if acl.resource_type != ResourceType.TOPIC or acl.host not in (WILDCARD, question.host):
        return False
    if acl.principal not in (question.principal, "User:*"):
        return False
    if acl.pattern_type == Pattern.PREFIXED:
        return question.topic.startswith(acl.resource_name)
    return acl.resource_name in (question.topic, WILDCARD)
