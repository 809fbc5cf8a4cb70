"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken
(keys 38 to 41): the tokens of KIP-48.

The rules are the controller's (`machines.controller.tokens`), but for what has to do with the
client itself: it must have logged in, and not with a token (64 otherwise), and needs CREATE_TOKENS
on another user whose token it creates (65). Both kinds of nodes check that, as in Kafka. A broker
has checked the login of a client whose request it forwards.

Every node describes tokens from its own image. The HMACs in a description are secrets, so a client
sees the tokens that it owns or may renew, and others only by DESCRIBE on the token or
DESCRIBE_TOKENS on its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

from fencepost.broker.cluster.controller_access import token_refusal
from fencepost.broker.cluster.controller_requests import decide_here, take_to_controller
from fencepost.broker.cluster.controller_service import (
    FIRST_CREATE_TOKEN_WITH_REQUESTER,
    ControllerService,
)
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.machines.controller.tokens import (
    has_foreign_renewers,
    has_owner_without_type,
    owner_of,
)
from fencepost.machines.image import TokenImage
from fencepost.machines.image.token_secret import TokenSecret
from fencepost.machines.session import ANONYMOUS, Principal, SecurityProtocol
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.permissions import DESCRIBE_DELEGATION_TOKEN, DESCRIBE_TOKENS
from fencepost.wire.api.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from fencepost.wire.api.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
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
NO_TIME: Final = -1
TOKENS_PER_PIECE: Final = 200


def has_logged_in(context: PendingRequest) -> bool:
    """Whether the client may ask for tokens: it has shown a password or a certificate, and no
    token. Of a client whose request was forwarded, the broker has seen to the first."""
    principal, protocol = context.principal, context.security_protocol
    if principal.token_authenticated:
        return False
    if context.is_forwarded or protocol.has_sasl:
        return True
    return protocol is SecurityProtocol.SSL and not principal.is_same_as(ANONYMOUS)


# -- creating ----------------------------------------------------------------------------------


@handles(CreateDelegationTokenRequest, listeners=(BROKER,), stores_text=True)
def handle_create(
    context: PendingRequest,
    request: CreateDelegationTokenRequest,
    *,
    access: Access,
    forwarder: Forwarder,
) -> CreateDelegationTokenResponse | None:
    """Have the active controller create the token."""
    refuse = _refusing(context)
    if not has_logged_in(context):
        return refuse(request, NOT_ALLOWED)
    if has_owner_without_type(request):
        return refuse(request, ErrorCode.INVALID_REQUEST)
    if error := token_refusal(access, context, request):
        return refuse(request, error)
    if has_foreign_renewers(request):
        return refuse(request, ErrorCode.INVALID_PRINCIPAL_TYPE)
    take_to_controller(forwarder, context, request, refuse)
    return None


@handles(CreateDelegationTokenRequest, listeners=(CONTROLLER,), stores_text=True)
def handle_create_here(
    context: PendingRequest,
    request: CreateDelegationTokenRequest,
    *,
    controller: ControllerService,
) -> CreateDelegationTokenResponse | None:
    """Let the controller create the token; answer when that is committed."""
    refuse = _refusing(context)
    if not has_logged_in(context):
        return refuse(request, NOT_ALLOWED)
    decide_here(controller, context, request, refuse)
    return None


def _refusing(context: PendingRequest) -> Callable[[Any, ErrorCode], CreateDelegationTokenResponse]:
    """Makes the response with an error: it names the owner and, in its versions, the caller."""

    def refuse(request: Any, error: ErrorCode) -> CreateDelegationTokenResponse:
        requester = context.principal
        owner = owner_of(request, requester)
        response = CreateDelegationTokenResponse(
            error_code=error,
            principal_type=owner.type,
            principal_name=owner.name,
            issue_timestamp_ms=NO_TIME,
            expiry_timestamp_ms=NO_TIME,
            max_timestamp_ms=NO_TIME,
        )
        if context.api_version >= FIRST_CREATE_TOKEN_WITH_REQUESTER:
            response.token_requester_principal_type = requester.type
            response.token_requester_principal_name = requester.name
        return response

    return refuse


# -- renewing and expiring ---------------------------------------------------------------------


@handles(RenewDelegationTokenRequest, listeners=(BROKER,))
def handle_renew(
    context: PendingRequest, request: RenewDelegationTokenRequest, *, forwarder: Forwarder
) -> RenewDelegationTokenResponse | None:
    """Have the active controller renew the token."""
    if not has_logged_in(context):
        return RenewDelegationTokenResponse(error_code=NOT_ALLOWED, expiry_timestamp_ms=NO_TIME)
    take_to_controller(forwarder, context, request)
    return None


@handles(RenewDelegationTokenRequest, listeners=(CONTROLLER,))
def handle_renew_here(
    context: PendingRequest,
    request: RenewDelegationTokenRequest,
    *,
    controller: ControllerService,
) -> RenewDelegationTokenResponse | None:
    """Let the controller renew the token; answer when that is committed."""
    if not has_logged_in(context):
        return RenewDelegationTokenResponse(error_code=NOT_ALLOWED, expiry_timestamp_ms=NO_TIME)
    decide_here(controller, context, request)
    return None


@handles(ExpireDelegationTokenRequest, listeners=(BROKER,))
def handle_expire(
    context: PendingRequest, request: ExpireDelegationTokenRequest, *, forwarder: Forwarder
) -> ExpireDelegationTokenResponse | None:
    """Have the active controller expire the token."""
    if not has_logged_in(context):
        return ExpireDelegationTokenResponse(error_code=NOT_ALLOWED, expiry_timestamp_ms=NO_TIME)
    take_to_controller(forwarder, context, request)
    return None


@handles(ExpireDelegationTokenRequest, listeners=(CONTROLLER,))
def handle_expire_here(
    context: PendingRequest,
    request: ExpireDelegationTokenRequest,
    *,
    controller: ControllerService,
) -> ExpireDelegationTokenResponse | None:
    """Let the controller expire the token; answer when that is committed."""
    if not has_logged_in(context):
        return ExpireDelegationTokenResponse(error_code=NOT_ALLOWED, expiry_timestamp_ms=NO_TIME)
    decide_here(controller, context, request)
    return None


# -- describing --------------------------------------------------------------------------------


@handles(DescribeDelegationTokenRequest, listeners=(BROKER, CONTROLLER))
def handle_describe(
    context: PendingRequest,
    request: DescribeDelegationTokenRequest,
    *,
    access: Access,
    config: BrokerConfig,
    metadata: MetadataCache,
) -> Generator[None, None, DescribeDelegationTokenResponse]:
    """Describe the tokens of the owners that are named, or all, as far as the client may see."""
    secret = config.token_secret
    if not has_logged_in(context):
        return DescribeDelegationTokenResponse(error_code=NOT_ALLOWED)
    if secret is None:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {f"{one.principal_type}:{one.principal_name}" for one in request.owners}
    tokens = []
    for number, token in enumerate(metadata.image.tokens.values()):
        if number % TOKENS_PER_PIECE == TOKENS_PER_PIECE - 1:
            yield
        is_wanted = owners is None or any(map(token.may_be_renewed_by, owners))
        if is_wanted and _may_see(access, context, token):
            tokens.append(_described(token, secret))
    return DescribeDelegationTokenResponse(tokens=tokens)


def _may_see(access: Access, context: PendingRequest, token: TokenImage) -> bool:
    return (
        token.may_be_renewed_by(str(context.principal))
        or access.allows(context, DESCRIBE_DELEGATION_TOKEN, token.token_id)
        or access.allows(context, DESCRIBE_TOKENS, token.owner)
    )


def _described(token: TokenImage, secret: TokenSecret) -> DescribedDelegationToken:
    owner: Principal = Principal.parse(token.owner)
    requester = Principal.parse(token.requester)
    return DescribedDelegationToken(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=secret.hmac_of(token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=one.type, principal_name=one.name)
            for one in map(Principal.parse, token.renewers)
        ],
    )
