"""Who may do what, written from the rules without an index or a memory, to compare with."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterable

from fencepost.machines.image.acls import Acl

TOPIC, LITERAL, PREFIXED, DENY, ALLOW, ALL = 2, 3, 4, 2, 3, 2
IMPLIED = {8: {3, 4, 6, 7, 8}, 10: {10, 11}}


def applies(acl: Acl, principal: str, host: str, operation: int, *, implied: bool = True) -> bool:
    operations = IMPLIED.get(operation, {operation}) if acl.permission == ALLOW else {operation}
    return (
        acl.principal in (principal, "User:*")
        and (acl.host in ("*", host) or is_in_range(host, acl.host))
        and (acl.operation == ALL or acl.operation in (operations if implied else {operation}))
    )


def is_in_range(host: str, text: str) -> bool:
    return "/" in text and ipaddress.ip_address(host) in ipaddress.ip_network(text, strict=False)


def allows(
    acls: Iterable[Acl], principal: str, host: str, operation: int, kind: int, name: str,
    *, default: bool = False, supers: frozenset[str] = frozenset(),
) -> bool:  # fmt: skip
    if principal in supers:
        return True
    counts = [
        acl
        for acl in acls
        if acl.resource_type == kind
        and (
            (acl.pattern_type == LITERAL and acl.resource_name in (name, "*"))
            or (acl.pattern_type == PREFIXED and name.startswith(acl.resource_name))
        )
    ]
    found = {acl.permission for acl in counts if applies(acl, principal, host, operation)}
    return not found & {DENY} and (bool(found) if counts else default)


def allows_any(
    acls: Iterable[Acl], principal: str, host: str, operation: int, kind: int,
    *, default: bool = False, supers: frozenset[str] = frozenset(),
) -> bool:  # fmt: skip
    acls = list(acls)
    first = allows(
        acls, principal, host, operation, kind, "hardcode", default=default, supers=supers
    )
    if first:
        return True
    mine = [
        (acl.permission, acl.pattern_type, acl.resource_name)
        for acl in acls
        if acl.resource_type == kind and applies(acl, principal, host, operation, implied=False)
    ]
    if (DENY, LITERAL, "*") in mine:
        return False
    return any(
        (pattern, name) == (LITERAL, "*")
        or not (
            (pattern == LITERAL and (DENY, LITERAL, name) in mine)
            or any((DENY, PREFIXED, name[:size]) in mine for size in range(1, len(name) + 1))
        )
        for permission, pattern, name in mine
        if permission == ALLOW
    )


NAMES = ("a", "ab", "abc", "b", "*", "hardcode", "h")
PRINCIPALS = ("User:a", "User:b", "User:*", "Role:a")
HOSTS = ("10.0.0.1", "10.0.1.1", "0:0:0:0:0:0:0:1")
RANGES = ("10.0.0.0/24", "10.0.0.7/8", "10.0.0.1/32", "0.0.0.0/0", "::/0", "::1/128", "fe80::/10")
OPERATIONS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)


def drawn_acl(rnd: random.Random) -> Acl:
    """One that is likely to be about what is asked for."""
    return Acl(
        resource_type=rnd.choice((2, 2, 2, 3)),
        resource_name=rnd.choice(NAMES),
        pattern_type=rnd.choice((LITERAL, PREFIXED)),
        operation=rnd.choice(OPERATIONS),
        principal=rnd.choice(PRINCIPALS),
        host=rnd.choice(("*", "*", *HOSTS, *RANGES)),
        permission=rnd.choice((DENY, ALLOW, ALLOW)),
    )


def drawn_question(rnd: random.Random) -> tuple[str, str, int, int, str]:
    """Principal, host, operation, resource type, resource name."""
    return (
        rnd.choice(("User:a", "User:b", "User:c", "Role:a")),
        rnd.choice(HOSTS),
        rnd.choice(OPERATIONS[1:]),
        rnd.choice((2, 2, 3)),
        rnd.choice((*NAMES, "abcd", "other")),
    )
