"""DescribeAcls, CreateAcls, DeleteAcls (keys 29, 30, 31) v1-3: SECURITY_DISABLED, each rule alone.

There is no authorizer, so there are no access control lists. Brokers and controllers answer as
Apache Kafka does without `authorizer.class.name`, whatever a rule or a filter says. MirrorMaker 2
and consoles take that for a cluster without ACLs.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import ALTER_CLUSTER, DESCRIBE_CLUSTER
from fencepost.wire.api.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from fencepost.wire.api.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from fencepost.wire.api.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from fencepost.wire.errors import ErrorCode

NO_AUTHORIZER: Final = "No Authorizer is configured."
NO_AUTHORIZER_TO_DESCRIBE: Final = "No Authorizer is configured on the broker"
"""Kafka's two messages, which programs compare."""


@handles(DescribeAclsRequest, listeners=(BROKER, CONTROLLER))
def handle_describe(
    context: RequestContext, request: DescribeAclsRequest, *, access: Access
) -> DescribeAclsResponse:
    """Refuse to describe."""
    if refusal := access.refusal(context, DESCRIBE_CLUSTER):
        return DescribeAclsResponse(error_code=refusal)
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER_TO_DESCRIBE
    )


@handles(CreateAclsRequest, listeners=(BROKER, CONTROLLER))
def handle_create(
    context: RequestContext, request: CreateAclsRequest, *, access: Access
) -> CreateAclsResponse:
    """Refuse each rule."""
    if refusal := access.refusal(context, ALTER_CLUSTER):
        denied = AclCreationResult(error_code=refusal, error_message=None)
        return CreateAclsResponse(results=[denied] * len(request.creations))
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=[refused] * len(request.creations))


@handles(DeleteAclsRequest, listeners=(BROKER, CONTROLLER))
def handle_delete(
    context: RequestContext, request: DeleteAclsRequest, *, access: Access
) -> DeleteAclsResponse:
    """Refuse each filter."""
    if refusal := access.refusal(context, ALTER_CLUSTER):
        denied = DeleteAclsFilterResult(error_code=refusal, error_message=None)
        return DeleteAclsResponse(filter_results=[denied] * len(request.filters))
    refused = DeleteAclsFilterResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER
    )
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
