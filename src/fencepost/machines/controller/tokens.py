"""Delegation tokens are created, renewed and expired (KIP-48, KIP-373; in KRaft since 3.6).

The checks are Kafka's, in its order; those of the client's session and permissions come before, in
the handlers. Times are milliseconds since 1970 on the active controller's clock.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Final

from msgspec.structs import replace

from fencepost.machines.controller.config import TOKENS_PER_SWEEP, TokenSettings
from fencepost.machines.controller.decision import Decision, Refused
from fencepost.machines.image import TOKENS_SINCE, ClusterImage, TokenImage
from fencepost.machines.image.token_secret import TokenSecret
from fencepost.machines.image.tokens import TokensImage, token_record
from fencepost.machines.session.principal import USER, Principal
from fencepost.wire.api.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
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
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import RemoveDelegationTokenRecord

_LATEST_MS: Final = (1 << 63) - 1


class TokenHmacs:
    """Tokens by their HMACs, which are all that requests name them by.

    Follows the image. It is asked with what a client sent, so it keeps digests and compares the
    HMAC itself in constant time.
    """

    def __init__(self, secret: TokenSecret) -> None:
        self._secret = secret
        self._tokens = TokensImage()
        self._ids: dict[bytes, str] = {}

    def find(self, tokens: TokensImage, given: bytes) -> TokenImage | None:
        """The one of `tokens` with that HMAC."""
        if tokens is not self._tokens:
            for token_id, old, new in tokens.changes_since(self._tokens):
                digest = sha256(self._secret.hmac_of(token_id)).digest()
                if old is None:
                    self._ids[digest] = token_id
                elif new is None:
                    del self._ids[digest]
            self._tokens = tokens
        found = self._ids.get(sha256(given).digest())
        if found is None or not hmac.compare_digest(self._secret.hmac_of(found), given):
            return None
        return tokens[found]


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """The principal that the token will stand for: the requester unless another is named."""
    if not request.owner_principal_name:
        return requester
    return Principal(request.owner_principal_type or "", request.owner_principal_name)


def has_owner_without_type(request: CreateDelegationTokenRequest) -> bool:
    """Whether an owner is named and is of no type: no principal, which Kafka fails at."""
    return bool(request.owner_principal_name) and request.owner_principal_type is None


def has_foreign_renewers(request: CreateDelegationTokenRequest) -> bool:
    """Whether a renewer is no `User`."""
    return any(one.principal_type != USER for one in request.renewers)


def create_token(
    image: ClusterImage,
    settings: TokenSettings,
    request: CreateDelegationTokenRequest,
    requester: Principal,
    token_id: str,
    wall_ms: int,
) -> Decision:
    """Issue a token under `token_id`; reply CreateDelegationTokenResponse."""
    owner = owner_of(request, requester)
    response = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
    )
    try:
        secret = _enabled(image, settings)
        if has_owner_without_type(request):
            raise Refused(ErrorCode.INVALID_REQUEST)
        if has_foreign_renewers(request):
            raise Refused(ErrorCode.INVALID_PRINCIPAL_TYPE)
    except Refused as refused:
        response.error_code = refused.error
        return Decision([], response)
    lifetime_ms = settings.max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_ms = min(wall_ms + lifetime_ms, _LATEST_MS)
    token = TokenImage(
        token_id=token_id,
        owner=str(owner),
        requester=str(requester),
        renewers=tuple(f"{one.principal_type}:{one.principal_name}" for one in request.renewers),
        issue_timestamp=wall_ms,
        max_timestamp=max_ms,
        expiration_timestamp=min(max_ms, wall_ms + settings.expiry_time_ms),
    )
    response.issue_timestamp_ms = wall_ms
    response.expiry_timestamp_ms = token.expiration_timestamp
    response.max_timestamp_ms = max_ms
    response.token_id = token_id
    response.hmac = secret.hmac_of(token_id)
    return Decision([token_record(token)], response)


def renew_token(
    image: ClusterImage,
    settings: TokenSettings,
    hmacs: TokenHmacs | None,
    request: RenewDelegationTokenRequest,
    requester: Principal,
    wall_ms: int,
) -> Decision:
    """Have a token expire later; reply RenewDelegationTokenResponse."""
    try:
        _enabled(image, settings)
        token = _found(image, hmacs, bytes(request.hmac))
        if token.is_expired(wall_ms):
            raise Refused(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        _check_renewer(token, requester)
    except Refused as refused:
        return Decision([], RenewDelegationTokenResponse(error_code=refused.error))
    period_ms = settings.expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    expiry_ms = min(token.max_timestamp, wall_ms + period_ms)
    response = RenewDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
    return Decision([token_record(replace(token, expiration_timestamp=expiry_ms))], response)


def expire_token(
    image: ClusterImage,
    settings: TokenSettings,
    hmacs: TokenHmacs | None,
    request: ExpireDelegationTokenRequest,
    requester: Principal,
    wall_ms: int,
) -> Decision:
    """Have a token expire at another time, or remove it; reply ExpireDelegationTokenResponse."""
    try:
        _enabled(image, settings)
        token = _found(image, hmacs, bytes(request.hmac))
        _check_renewer(token, requester)
        if request.expiry_time_period_ms >= 0 and token.is_expired(wall_ms):
            raise Refused(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    except Refused as refused:
        return Decision([], ExpireDelegationTokenResponse(error_code=refused.error))
    if request.expiry_time_period_ms < 0:
        return Decision(
            [RemoveDelegationTokenRecord(token_id=token.token_id)],
            ExpireDelegationTokenResponse(expiry_timestamp_ms=wall_ms),
        )
    expiry_ms = min(token.max_timestamp, wall_ms + request.expiry_time_period_ms)
    response = ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)
    return Decision([token_record(replace(token, expiration_timestamp=expiry_ms))], response)


def sweep_tokens(image: ClusterImage, settings: TokenSettings, wall_ms: int) -> Decision:
    """Remove tokens that have expired; reply: how many."""
    if settings.secret is None or image.metadata_version < TOKENS_SINCE:
        return Decision([], 0)
    records: list[Message] = []
    for token in image.tokens.values():
        if token.is_expired(wall_ms):
            records.append(RemoveDelegationTokenRecord(token_id=token.token_id))
            if len(records) == TOKENS_PER_SWEEP:
                break
    return Decision(records, len(records))


def _enabled(image: ClusterImage, settings: TokenSettings) -> TokenSecret:
    if settings.secret is None:
        raise Refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    if image.metadata_version < TOKENS_SINCE:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)
    return settings.secret


def _found(image: ClusterImage, hmacs: TokenHmacs | None, given: bytes) -> TokenImage:
    token = None if hmacs is None else hmacs.find(image.tokens, given)
    if token is None:
        raise Refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return token


def _check_renewer(token: TokenImage, requester: Principal) -> None:
    if not token.may_be_renewed_by(str(requester)):
        raise Refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
