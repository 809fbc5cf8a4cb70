"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken
(keys 38 to 41): DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.

Only a client that has authenticated may ask for tokens, and on a PLAINTEXT listener none has.
Brokers and controllers answer as Apache Kafka does there.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.runtime.requests.context import RequestContext
from fencepost.wire.api.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from fencepost.wire.api.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from fencepost.wire.api.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from fencepost.wire.api.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from fencepost.wire.errors import ErrorCode

NOT_ALLOWED: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
CALLER: Final = ("User", "ANONYMOUS")
"""Type and name of the principal of every client of a PLAINTEXT listener."""
NO_TIME: Final = -1
REQUESTER_FROM: Final = 3
"""The version of CreateDelegationToken from which an owner may be another than the caller."""


@handles(CreateDelegationTokenRequest, listeners=(BROKER, CONTROLLER))
def handle_create(
    context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Refuse; the response names the owner and, in its versions, the caller."""
    owner, requester = CALLER, CALLER if context.api_version >= REQUESTER_FROM else ("", "")
    if request.owner_principal_name:
        owner = (request.owner_principal_type or "", request.owner_principal_name)
    return CreateDelegationTokenResponse(
        error_code=NOT_ALLOWED,
        principal_type=owner[0],
        principal_name=owner[1],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[1],
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )


@handles(RenewDelegationTokenRequest, listeners=(BROKER, CONTROLLER))
def handle_renew(
    context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Refuse."""
    return RenewDelegationTokenResponse(error_code=NOT_ALLOWED, expiry_timestamp_ms=NO_TIME)


@handles(ExpireDelegationTokenRequest, listeners=(BROKER, CONTROLLER))
def handle_expire(
    context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Refuse."""
    return ExpireDelegationTokenResponse(error_code=NOT_ALLOWED, expiry_timestamp_ms=NO_TIME)


@handles(DescribeDelegationTokenRequest, listeners=(BROKER, CONTROLLER))
def handle_describe(
    context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Refuse."""
    return DescribeDelegationTokenResponse(error_code=NOT_ALLOWED)
