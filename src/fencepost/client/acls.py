"""Access control lists of a cluster: see them, add and remove some (KIP-140, KIP-290).

The words are those of Java's admin client, the codes those of the protocol. A name of a resource in
a LITERAL pattern is that name, or `*` for every one; in a PREFIXED pattern it is what names begin
with. A principal is `User:name`, `User:*` for every user; a host is an address, `*` for any, or
since Kafka 4.4 a network as `10.0.0.0/8` (KIP-1276).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from fencepost.client import asking
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.refusals import Refusals, passing, raise_refusal
from fencepost.wire.api.create_acls import AclCreation, CreateAclsRequest
from fencepost.wire.api.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from fencepost.wire.api.describe_acls import DescribeAclsRequest

CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""
ANY_NAME = "*"
"""In a LITERAL pattern: every resource of the type. As a host: every address."""


class AclOperation(IntEnum):
    """What is done to a resource; ALL stands for every one of them, ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """What something is done to; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a name names resources. ANY and MATCH are for filters: MATCH finds the ACLs that concern
    a resource of that name, prefixed ones and those of `*` among them."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPermissionType(IntEnum):
    """Whether it may be done; a DENY wins over every ALLOW. ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """One rule: whether a principal may do something to resources."""

    resource_type: ResourceType
    name: str
    principal: str
    operation: AclOperation
    pattern_type: PatternType = PatternType.LITERAL
    host: str = ANY_NAME
    permission: AclPermissionType = AclPermissionType.ALLOW

    def __str__(self) -> str:
        may = "may" if self.permission is AclPermissionType.ALLOW else "may not"
        place = "" if self.host == ANY_NAME else f" from {self.host}"
        return f"{self.principal} {may} {self.operation.name} {_named(self)}{place}"


class AclBindingFilter(NamedTuple):
    """Which rules are meant; None and ANY are for every value."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    pattern_type: PatternType = PatternType.ANY
    host: str | None = None
    permission: AclPermissionType = AclPermissionType.ANY

    @classmethod
    def of(cls, binding: AclBinding) -> AclBindingFilter:
        """The filter that only this rule passes."""
        return cls(*binding)


def describing_acls(
    view: ClusterView[Any], wanted: AclBindingFilter | None = None
) -> Conversation[list[AclBinding]]:
    """The rules that pass the filter (None: all), sorted. BrokerError, SECURITY_DISABLED where the
    cluster has no authorizer among others."""
    chosen = wanted or AclBindingFilter()
    request = DescribeAclsRequest(
        resource_type_filter=chosen.resource_type,
        resource_name_filter=chosen.name,
        pattern_type_filter=chosen.pattern_type,
        principal_filter=chosen.principal,
        host_filter=chosen.host,
        operation=chosen.operation,
        permission_type=chosen.permission,
    )
    response = yield from asking.request_any(view, request, passing)
    raise_refusal(response, "ACLs cannot be described")
    return sorted(
        AclBinding(
            _word(ResourceType, resource.resource_type),
            resource.resource_name,
            acl.principal,
            _word(AclOperation, acl.operation),
            _word(PatternType, resource.pattern_type),
            acl.host,
            _word(AclPermissionType, acl.permission_type),
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
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=one.resource_type,
                resource_name_filter=one.name,
                pattern_type_filter=one.pattern_type,
                principal_filter=one.principal,
                host_filter=one.host,
                operation=one.operation,
                permission_type=one.permission,
            )
            for one in filters
        ]
    )
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
                _word(PatternType, acl.pattern_type),
                acl.host,
                _word(AclPermissionType, acl.permission_type),
            )
            refusals.note(str(binding), acl)
            removed.add(binding)
    refusals.check(len(filters), len(response.filter_results))
    return sorted(removed)


def _named(binding: AclBinding) -> str:
    if binding.resource_type is ResourceType.CLUSTER:
        return "the cluster"
    kind = binding.resource_type.name.lower().replace("_", " ")
    if binding.pattern_type is PatternType.PREFIXED:
        return f"each {kind} whose name begins with {binding.name}"
    return f"every {kind}" if binding.name == ANY_NAME else f"{kind} {binding.name}"


def _word(kind: type[Any], code: int) -> Any:
    """The member of that code; UNKNOWN for one of a newer broker."""
    return kind(code) if any(one == code for one in kind) else kind.UNKNOWN


def _passing_in(field: str) -> Any:
    """An `error_of`: the first code in the rows of a response that passes with time."""

    def error_of(response: Any) -> int:
        codes: Iterable[int] = map(passing, getattr(response, field))
        return next(filter(None, codes), 0)

    return error_of
