"""Who may do what: the rules of Kafka's StandardAuthorizer (KIP-801), as a function of the ACLs.

1. A super user may do everything.
2. Until the ACLs are loaded nothing is decided for others.
3. What counts are the ACLs whose pattern the resource matches: its name, a prefix of it, `*`.
4. Of those one applies that is for the principal and the host, and is about the operation, or
   about all. One that allows is also about what it implies: who may READ may DESCRIBE.
5. One that denies decides; otherwise one that allows; otherwise the answer is no, but where no ACL
   counts at all it is that of `allow.everyone.if.no.acl.found`.

Whether a client may do something to *some* resource of a type is asked of producers that have no
transactional id (KIP-679). There an operation is not implied by another.
"""

from __future__ import annotations

from enum import Enum
from itertools import accumulate
from typing import Final, NamedTuple

from fencepost.machines.authorizer.hosts import ClientHost
from fencepost.machines.authorizer.index import AclIndex, Rule
from fencepost.machines.image.acls import (
    WILDCARD,
    Acl,
    AclOperation,
    AuthorizerNotReadyError,
    Pattern,
)
from fencepost.machines.session import Principal

PROBE: Final = "hardcode"
"""The resource name that Kafka asks about first where any resource will do."""

_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}
_NONE: Final[frozenset[AclOperation]] = frozenset()


class Why(Enum):
    """What a decision rests on; the values are the words of Kafka's audit line."""

    SUPER_USER = "SuperUser"
    MATCHING_ACL = "MatchingAcl"
    DEFAULT_ALLOW = "DefaultAllow"
    """No ACL is about the resource, and `allow.everyone.if.no.acl.found` is set."""
    DEFAULT_DENY = "DefaultDeny"


class Decision(NamedTuple):
    """Whether something is allowed, and why."""

    allowed: bool
    why: Why
    acl: Acl | None = None
    """The ACL that decided, if one did."""

    @property
    def rule(self) -> str:
        """The reason, as Kafka's audit line says it."""
        return self.why.value if self.acl is None else f"{self.why.value}(acl={self.acl})"


class Policy(NamedTuple):
    """What is configured, besides the ACLs."""

    super_users: frozenset[str] = frozenset()
    """Principals as `Type:name`."""
    allows_if_no_acl: bool = False


class Asker(NamedTuple):
    """A client, as ACLs name it."""

    text: str
    """`Type:name`."""
    principal: str | None
    """The same, or None if an ACL of that text names another principal."""
    host: ClientHost

    @classmethod
    def of(cls, principal: Principal, host: ClientHost) -> Asker:
        """The client with this principal at this address."""
        text = str(principal)
        # An ACL's type ends at the first colon: no ACL can name a type that has one.
        return cls(text, None if ":" in principal.type else text, host)


_SUPER_USER: Final = Decision(True, Why.SUPER_USER)
_DEFAULT_ALLOW: Final = Decision(True, Why.DEFAULT_ALLOW)
_DEFAULT_DENY: Final = Decision(False, Why.DEFAULT_DENY)


def decide(
    index: AclIndex | None, policy: Policy, asker: Asker, operation: int, kind: int, name: str
) -> Decision:
    """Whether the client may do the operation to the resource of that type and name.

    `index` is None before the ACLs are loaded: AuthorizerNotReadyError, but for super users.
    """
    if asker.text in policy.super_users:
        return _SUPER_USER
    if index is None:
        raise AuthorizerNotReadyError
    allows: Acl | None = None
    is_named = False
    for rules in index.matching(kind, name):
        is_named = True
        for rule in index.rules_for(rules, asker.principal, asker.host):
            if not _is_about(rule, operation):
                continue
            if not rule.allows:
                return Decision(False, Why.MATCHING_ACL, rule.acl)
            allows = rule.acl
    if allows is not None:
        return Decision(True, Why.MATCHING_ACL, allows)
    return _DEFAULT_DENY if is_named or not policy.allows_if_no_acl else _DEFAULT_ALLOW


def decide_any(
    index: AclIndex | None, policy: Policy, asker: Asker, operation: int, kind: int
) -> Decision:
    """Whether the client may do the operation to some resource of that type, there or not.

    AuthorizerNotReadyError as `decide`.
    """
    first = decide(index, policy, asker, operation, kind, PROBE)
    if first.allowed:
        return first
    assert index is not None, "or it would have raised"
    about = (operation, AclOperation.ALL)
    denied: set[tuple[int, str]] = set()
    for acl in index.of_type(kind, asker.principal, asker.host, allows=False):
        if acl.operation in about:
            if _is_for_all(acl):
                return Decision(False, Why.MATCHING_ACL, acl)
            denied.add((acl.pattern_type, acl.resource_name))
    for acl in index.of_type(kind, asker.principal, asker.host, allows=True):
        if acl.operation in about and (_is_for_all(acl) or not _is_denied(acl, denied)):
            return Decision(True, Why.MATCHING_ACL, acl)
    return _DEFAULT_DENY


def _is_about(rule: Rule, operation: int) -> bool:
    acl = rule.acl
    about = acl.operation
    if about in (operation, AclOperation.ALL):
        return True
    if not rule.allows:
        return False
    return about in _IMPLIED_BY.get(operation, _NONE)  # type: ignore[call-overload]


def _is_for_all(acl: Acl) -> bool:
    return acl.pattern_type == Pattern.LITERAL and acl.resource_name == WILDCARD


def _is_denied(allowed: Acl, denied: set[tuple[int, str]]) -> bool:
    """Whether all that an ACL allows is denied by the literal names and the prefixes."""
    name, pattern = allowed.resource_name, allowed.pattern_type
    if pattern == Pattern.LITERAL and (pattern, name) in denied:
        return True
    return any((Pattern.PREFIXED, prefix) in denied for prefix in accumulate(name))
