"""Delegation tokens: make, renew, expire and see them (KIP-48, KIP-373).

A token lets a client log in by SCRAM as the token's owner, without the owner's password: the user
name is the token's id, the password its HMAC in base64, and `tokenauth` must be true. Only a client
that has itself logged in by something else may ask about tokens.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from fencepost.client import asking
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import ClientError
from fencepost.client.refusals import passing, raise_refusal
from fencepost.wire.api.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from fencepost.wire.api.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from fencepost.wire.api.expire_delegation_token import ExpireDelegationTokenRequest
from fencepost.wire.api.renew_delegation_token import RenewDelegationTokenRequest

DEFAULT_PERIOD_MS = -1
"""As a lifetime or period: what the cluster is configured with. As a period to expiry: at once."""


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token. Principals are texts as `User:ada`; times are ms since 1970."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int

    @property
    def password(self) -> str:
        """The secret with which a client logs in by SCRAM; the user name is `token_id`."""
        return base64.b64encode(self.hmac).decode()


def creating_delegation_token(
    view: ClusterView[Any],
    *,
    renewers: Iterable[str] = (),
    owner: str | None = None,
    max_lifetime_ms: int = DEFAULT_PERIOD_MS,
) -> Conversation[DelegationToken]:
    """Make a token of the client's own principal, or of `owner` (KIP-373). ClientError;
    BrokerError DELEGATION_TOKEN_AUTH_DISABLED where the cluster has none, among others.

    An answer that was lost is asked for again, so a token more may be made than is told of.
    """
    renewing = tuple(renewers)
    kind, name = _split(owner) if owner is not None else (None, None)
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[
            CreatableRenewers(principal_type=t, principal_name=n) for t, n in map(_split, renewing)
        ],
        max_lifetime_ms=max_lifetime_ms,
    )
    made = yield from asking.request_controller(view, request, passing)
    raise_refusal(made, "no delegation token was made")
    of = f"{made.principal_type}:{made.principal_name}"
    by = f"{made.token_requester_principal_type}:{made.token_requester_principal_name}"
    return DelegationToken(
        made.token_id,
        bytes(made.hmac),
        of,
        of if by == ":" else by,
        renewing,
        made.issue_timestamp_ms,
        made.expiry_timestamp_ms,
        made.max_timestamp_ms,
    )


def renewing_delegation_token(
    view: ClusterView[Any], hmac: bytes, *, period_ms: int = DEFAULT_PERIOD_MS
) -> Conversation[int]:
    """Let a token be good for `period_ms` from now, at most up to its maximum; returns until when,
    in ms since 1970. BrokerError."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    response = yield from asking.request_controller(view, request, passing)
    raise_refusal(response, "the delegation token was not renewed")
    return int(response.expiry_timestamp_ms)


def expiring_delegation_token(
    view: ClusterView[Any], hmac: bytes, *, period_ms: int = DEFAULT_PERIOD_MS
) -> Conversation[int]:
    """Let a token end in `period_ms`, or be removed at once if that is negative; returns when, in
    ms since 1970. BrokerError."""
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    response = yield from asking.request_controller(view, request, passing)
    raise_refusal(response, "the delegation token was not ended")
    return int(response.expiry_timestamp_ms)


def describing_delegation_tokens(
    view: ClusterView[Any], owners: Iterable[str] | None = None
) -> Conversation[list[DelegationToken]]:
    """The tokens that the client may see, by owner and time of issue; with `owners` only those that
    one of these principals owns or may renew. BrokerError."""
    chosen = None
    if owners is not None:
        chosen = [
            DescribeDelegationTokenOwner(principal_type=t, principal_name=n)
            for t, n in map(_split, owners)
        ]
    request = DescribeDelegationTokenRequest(owners=chosen)
    response = yield from asking.request_any(view, request, passing)
    raise_refusal(response, "delegation tokens cannot be described")
    tokens = []
    for one in response.tokens:
        owner = f"{one.principal_type}:{one.principal_name}"
        by = f"{one.token_requester_principal_type}:{one.token_requester_principal_name}"
        token = DelegationToken(
            one.token_id,
            bytes(one.hmac),
            owner,
            owner if by == ":" else by,
            tuple(f"{r.principal_type}:{r.principal_name}" for r in one.renewers),
            one.issue_timestamp,
            one.expiry_timestamp,
            one.max_timestamp,
        )
        tokens.append(token)
    return sorted(tokens, key=lambda one: (one.owner, one.issue_timestamp_ms, one.token_id))


def _split(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    if not colon or not kind or not name:
        raise ClientError(f"{principal!r} is no principal: it must be as User:ada")
    return kind, name
