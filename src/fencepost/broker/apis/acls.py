"""DescribeAcls, CreateAcls, DeleteAcls (keys 29, 30, 31) v1-3: the access control lists (KIP-140).

DescribeAcls is answered from this node's metadata, grouped by resource pattern. The others are the
active controller's to decide (`machines.controller.acls`); the answer comes when that is committed.
A request with a code that is 0 cannot be read, as in Kafka: the client is disconnected. A filter
with a code that means nothing matches nothing, and cannot delete.

Without an authorizer all three are SECURITY_DISABLED, each rule alone. MirrorMaker 2 and consoles
take that for a cluster without ACLs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from fencepost.broker.cluster.acl_requests import refused_creations, refused_deletions
from fencepost.broker.cluster.controller_requests import decide_here, take_to_controller
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import (
    BROKER,
    CONTROLLER,
    WHOLE_REQUEST_ELEMENTS_MAX,
    handles,
)
from fencepost.machines.authorizer.filters import AclFilter
from fencepost.machines.image.acls import Acl
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces
from fencepost.runtime.requests.permissions import DESCRIBE_CLUSTER
from fencepost.wire.api.create_acls import AclCreation, CreateAclsRequest
from fencepost.wire.api.delete_acls import DeleteAclsRequest
from fencepost.wire.api.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from fencepost.wire.errors import ErrorCode

NO_AUTHORIZER_TO_DESCRIBE: Final = "No Authorizer is configured on the broker"
"""Kafka's message, which programs compare."""
ACLS_PER_PIECE: Final = 500
"""How many are looked at, or listed, before other work has its turn."""
_UNREADABLE: Final = "a rule or filter has a code that is 0"


@handles(DescribeAclsRequest, listeners=(BROKER, CONTROLLER))
def handle_describe(
    context: PendingRequest,
    request: DescribeAclsRequest,
    *,
    access: Access,
    metadata: MetadataCache,
) -> DescribeAclsResponse | Pieces | None:
    """Tell the ACLs that match; in pieces, since there may be many."""
    wanted = AclFilter.of(request)
    if wanted.has_zero:
        context.close(_UNREADABLE)
        return None
    if refusal := access.refusal(context, DESCRIBE_CLUSTER):
        return DescribeAclsResponse(error_code=refusal)
    if access.authorizer is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER_TO_DESCRIBE
        )
    return _describe(metadata.image.acls.values(), wanted)


def _describe(acls: Iterable[Acl], wanted: AclFilter) -> Pieces:
    found: defaultdict[tuple[int, str, int], list[Acl]] = defaultdict(list)
    for number, acl in enumerate(acls, 1):
        if number % ACLS_PER_PIECE == 0:
            yield None
        if wanted.matches(acl):
            found[_pattern_of(acl)].append(acl)
    resources: list[DescribeAclsResource] = []
    told = 0
    for pattern in sorted(found):
        if told >= ACLS_PER_PIECE:
            told = 0
            yield None
        kind, name, pattern_type = pattern
        rows = [_told(acl) for acl in sorted(found[pattern])]
        told += len(rows)
        resources.append(
            DescribeAclsResource(
                resource_type=kind, resource_name=name, pattern_type=pattern_type, acls=rows
            )
        )
    return DescribeAclsResponse(error_message="", resources=resources)


def _pattern_of(acl: Acl) -> tuple[int, str, int]:
    return acl.resource_type, acl.resource_name, acl.pattern_type


def _told(acl: Acl) -> AclDescription:
    return AclDescription(
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


@handles(
    CreateAclsRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(BROKER,),
    stores_text=True,
)
def handle_create(
    context: PendingRequest, request: CreateAclsRequest, *, forwarder: Forwarder
) -> None:
    """Have the active controller add ACLs."""
    if not _is_readable(context, request):
        return
    take_to_controller(forwarder, context, request, refused_creations)


@handles(
    CreateAclsRequest,
    max_elements=WHOLE_REQUEST_ELEMENTS_MAX,
    listeners=(CONTROLLER,),
    stores_text=True,
)
def handle_create_here(
    context: PendingRequest, request: CreateAclsRequest, *, controller: ControllerService
) -> None:
    """Let the controller add ACLs; answer when that is committed."""
    if _is_readable(context, request):
        decide_here(controller, context, request, refused_creations)


@handles(DeleteAclsRequest, max_elements=WHOLE_REQUEST_ELEMENTS_MAX, listeners=(BROKER,))
def handle_delete(
    context: PendingRequest, request: DeleteAclsRequest, *, forwarder: Forwarder
) -> None:
    """Have the active controller remove ACLs."""
    if any(AclFilter.of(one).has_zero for one in request.filters):
        context.close(_UNREADABLE)
        return
    take_to_controller(forwarder, context, request, refused_deletions)


@handles(DeleteAclsRequest, max_elements=WHOLE_REQUEST_ELEMENTS_MAX, listeners=(CONTROLLER,))
def handle_delete_here(
    context: PendingRequest, request: DeleteAclsRequest, *, controller: ControllerService
) -> None:
    """Let the controller remove ACLs; answer when that is committed."""
    if any(AclFilter.of(one).has_zero for one in request.filters):
        context.close(_UNREADABLE)
        return
    decide_here(controller, context, request, refused_deletions)


def _is_readable(context: PendingRequest, request: CreateAclsRequest) -> bool:
    if all(map(_has_no_zero, request.creations)):
        return True
    context.close(_UNREADABLE)
    return False


def _has_no_zero(one: AclCreation) -> bool:
    return bool(
        one.resource_type and one.resource_pattern_type and one.operation and one.permission_type
    )
