"""Filters of ACLs, as DescribeAcls and DeleteAcls have them (KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from fencepost.machines.image.acls import (
    WILDCARD,
    Acl,
    AclOperation,
    AclResource,
    Pattern,
    PermissionType,
    is_known,
)
from fencepost.wire.types import Uuid

ANY: Final = 1
"""In a filter: the field may have any value."""


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
        if not (is_known(AclResource, self.resource_type) and is_known(Pattern, self.pattern_type)):
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

    def found_in(self, acls: Iterable[tuple[Uuid, Acl]]) -> Iterator[tuple[Acl, Uuid]]:
        """Those of the ACLs that match, and their ids."""
        return ((acl, acl_id) for acl_id, acl in acls if self.matches(acl))
