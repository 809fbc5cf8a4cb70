"""Filters of ACLs, as DescribeAcls and DeleteAcls have them (KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from fencepost.machines.image.acls import (
    WILDCARD,
    Acl,
    AclOperation,
    Pattern,
    PermissionType,
    ResourceType,
    is_known,
)
from fencepost.wire.types import Uuid

ANY: Final = 1
"""In a filter: the field may have any value."""


Found = tuple[Acl, Uuid]
"""An ACL and its id."""


class FilterFields(Protocol):
    """A filter as a request has it."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class AclFilter(NamedTuple):
    """What ACLs have to be like; None and ANY: as they like."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    @classmethod
    def of(cls, fields: FilterFields) -> AclFilter:
        """The filter of a request."""
        return cls(
            fields.resource_type_filter,
            fields.resource_name_filter,
            fields.pattern_type_filter,
            fields.principal_filter,
            fields.host_filter,
            fields.operation,
            fields.permission_type,
        )

    @property
    def unknown_part(self) -> str | None:
        """What has a code that means nothing, as Kafka calls it; such a filter matches nothing."""
        if not (
            is_known(ResourceType, self.resource_type) and is_known(Pattern, self.pattern_type)
        ):
            return "patternFilter"
        if is_known(AclOperation, self.operation) and is_known(PermissionType, self.permission):
            return None
        return "entryFilter"

    @property
    def has_zero(self) -> bool:
        """Whether one of the codes is 0: Kafka does not read such a request."""
        return not all((self.resource_type, self.pattern_type, self.operation, self.permission))

    def matches(self, acl: Acl) -> bool:
        """Whether the ACL is one of those."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._names(acl)
        )

    def _names(self, acl: Acl) -> bool:
        """Whether its pattern is one that is looked for. Of a name, MATCH is every pattern that
        counts for it: the name itself, `*`, and prefixes."""
        wanted, name = self.pattern_type, self.resource_name
        if wanted not in (Pattern.ANY, Pattern.MATCH, acl.pattern_type):
            return False
        if name is None:
            return True
        if wanted != Pattern.MATCH:
            return name == acl.resource_name
        if acl.pattern_type == Pattern.LITERAL:
            return acl.resource_name in (name, WILDCARD)
        return name.startswith(acl.resource_name)


class AclLookup:
    """ACLs by what filters name most: resources, then principals.

    A request may have thousands of filters, and there may be as many ACLs.
    """

    def __init__(self, acls: Iterable[tuple[Uuid, Acl]]) -> None:
        self.scanned = 0
        """How many filters have had all ACLs looked at."""
        self._all: list[Found] = [(acl, acl_id) for acl_id, acl in acls]
        self._by_name: dict[str, list[Found]] = {}
        self._by_principal: dict[str, list[Found]] = {}
        for one in self._all:
            self._by_name.setdefault(one[0].resource_name, []).append(one)
            self._by_principal.setdefault(one[0].principal, []).append(one)
        self._lengths = sorted(set(map(len, self._by_name)))

    def find(self, wanted: AclFilter) -> list[Found]:
        """The ACLs that match, and their ids, in the order of ACLs."""
        return sorted(one for one in self._candidates(wanted) if wanted.matches(one[0]))

    def _candidates(self, wanted: AclFilter) -> Iterable[Found]:
        name = wanted.resource_name
        if name is not None:
            if wanted.pattern_type != Pattern.MATCH:
                return self._by_name.get(name, ())
            names = {name[:length] for length in self._lengths if length <= len(name)}
            return [one for some in names | {WILDCARD} for one in self._by_name.get(some, ())]
        if wanted.principal is not None:
            return self._by_principal.get(wanted.principal, ())
        self.scanned += 1
        return self._all
