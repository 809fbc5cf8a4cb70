"""Access control lists of a cluster: see them, add and remove some (KIP-140, KIP-290).

The words are those of Java's admin client. A name of a resource in
a LITERAL pattern is that name, or `*` for every one; in a PREFIXED pattern it is what names begin
with. A principal is `User:name`, `User:*` for every user; a host is an address, `*` for any, or
since Kafka 4.4 a network as `10.0.0.0/8` (KIP-1276).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fencepost.client import asking
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.refusals import Refusals, passing, raise_refusal
from fencepost.machines.image.acls import (
    WILDCARD,
    AclOperation,
    Pattern,
    PermissionType,
    ResourceType,
)
from fencepost.wire.api.create_acls import AclCreation, CreateAclsRequest
from fencepost.wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from fencepost.wire.api.describe_acls import DescribeAclsRequest


class AclBinding(NamedTuple):
    """One rule: whether a principal may do something to resources."""

    resource_type: ResourceType
    name: str
    principal: str
    operation: AclOperation
    pattern_type: Pattern = Pattern.LITERAL
    host: str = WILDCARD
    permission: PermissionType = PermissionType.ALLOW

    def __str__(self) -> str:
        is_allowed = self.permission is PermissionType.ALLOW
        what = self.operation.name
        if self.operation is AclOperation.ALL:
            what = "do everything to" if is_allowed else "do anything to"
        place = "" if self.host == WILDCARD else f" from {self.host}"
        return f"{self.principal} may{'' if is_allowed else ' not'} {what} {_named(self)}{place}"


class AclBindingFilter(NamedTuple):
    """Which rules are meant; None and ANY are for every value."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    pattern_type: Pattern = Pattern.ANY
    host: str | None = None
    permission: PermissionType = PermissionType.ANY

    @classmethod
    def of(cls, binding: AclBinding) -> AclBindingFilter:
        """The filter that only this rule passes."""
        return cls(*binding)

    def fields(self) -> dict[str, Any]:
        """The filter as requests have it."""
        return {
            "resource_type_filter": self.resource_type,
            "resource_name_filter": self.name,
            "pattern_type_filter": self.pattern_type,
            "principal_filter": self.principal,
            "host_filter": self.host,
            "operation": self.operation,
            "permission_type": self.permission,
        }


def describing_acls(
    view: ClusterView[Any], wanted: AclBindingFilter | None = None
) -> Conversation[list[AclBinding]]:
    """The rules that pass the filter (None: all), sorted. BrokerError, SECURITY_DISABLED where the
    cluster has no authorizer among others."""
    chosen = wanted or AclBindingFilter()
    request = DescribeAclsRequest(**chosen.fields())
    response = yield from asking.request_any(view, request, passing)
    raise_refusal(response, "ACLs cannot be described")
    return sorted(
        AclBinding(
            _word(ResourceType, resource.resource_type),
            resource.resource_name,
            acl.principal,
            _word(AclOperation, acl.operation),
            _word(Pattern, resource.pattern_type),
            acl.host,
            _word(PermissionType, acl.permission_type),
        )
        for resource in response.resources
        for acl in resource.acls
    )


def creating_acls(view: ClusterView[Any], bindings: Sequence[AclBinding]) -> Conversation[None]:
    """Add rules; one that is there already is left as it is. BrokerError when one is refused; its
    text names that rule, and the others are added all the same."""
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=one.resource_type,
                resource_name=one.name,
                resource_pattern_type=one.pattern_type,
                principal=one.principal,
                host=one.host,
                operation=one.operation,
                permission_type=one.permission,
            )
            for one in bindings
        ]
    )
    response = yield from asking.request_controller(view, request, _passing_in("results"))
    refusals = Refusals("ACLs were not added")
    for binding, result in zip(bindings, response.results, strict=False):
        refusals.note(str(binding), result)
    refusals.check(len(bindings), len(response.results))


def deleting_acls(
    view: ClusterView[Any], filters: Sequence[AclBindingFilter]
) -> Conversation[list[AclBinding]]:
    """Remove the rules that pass one of the filters; returns them, sorted. BrokerError when a
    filter is refused; the others are carried out all the same."""
    request = DeleteAclsRequest(filters=[DeleteAclsFilter(**one.fields()) for one in filters])
    response = yield from asking.request_controller(view, request, _passing_in("filter_results"))
    refusals = Refusals("ACLs were not removed")
    removed = set()
    for wanted, result in zip(filters, response.filter_results, strict=False):
        refusals.note(str(wanted), result)
        for acl in result.matching_acls:
            binding = AclBinding(
                _word(ResourceType, acl.resource_type),
                acl.resource_name,
                acl.principal,
                _word(AclOperation, acl.operation),
                _word(Pattern, acl.pattern_type),
                acl.host,
                _word(PermissionType, acl.permission_type),
            )
            refusals.note(str(binding), acl)
            removed.add(binding)
    refusals.check(len(filters), len(response.filter_results))
    return sorted(removed)


def _named(binding: AclBinding) -> str:
    if binding.resource_type is ResourceType.CLUSTER:
        return "the cluster"
    kind = binding.resource_type.name.lower().replace("_", " ")
    if binding.pattern_type is Pattern.PREFIXED:
        return f"each {kind} whose name begins with {binding.name}"
    return f"every {kind}" if binding.name == WILDCARD else f"{kind} {binding.name}"


def _word(kind: type[Any], code: int) -> Any:
    """The member of that code; UNKNOWN for one of a newer broker."""
    return kind(code) if any(one == code for one in kind) else kind.UNKNOWN


def _passing_in(field: str) -> Any:
    """An `error_of`: the first code in the rows of a response that passes with time."""

    def error_of(response: Any) -> int:
        codes: Iterable[int] = map(passing, getattr(response, field))
        return next(filter(None, codes), 0)

    return error_of
