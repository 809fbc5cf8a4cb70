"""Requests about ACLs as a whole: refused with one error, and where there is no authorizer."""

from __future__ import annotations

from typing import Final

from fencepost.wire.api.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from fencepost.wire.api.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

NO_AUTHORIZER: Final = "No Authorizer is configured."
"""Kafka's message, which programs compare."""


def refused_creations(
    request: CreateAclsRequest, error: ErrorCode, message: str | None = None
) -> CreateAclsResponse:
    """The answer that refuses each rule with the error."""
    refused = AclCreationResult(error_code=int(error), error_message=message)
    return CreateAclsResponse(results=[refused] * len(request.creations))


def refused_deletions(
    request: DeleteAclsRequest, error: ErrorCode, message: str | None = None
) -> DeleteAclsResponse:
    """The answer that refuses each filter with the error."""
    refused = DeleteAclsFilterResult(error_code=int(error), error_message=message)
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))


def without_authorizer(request: Message) -> Message:
    """What a controller without an authorizer answers to CreateAcls and DeleteAcls."""
    if isinstance(request, CreateAclsRequest):
        return refused_creations(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    assert isinstance(request, DeleteAclsRequest)
    return refused_deletions(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
