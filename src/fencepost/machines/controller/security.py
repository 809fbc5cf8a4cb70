"""What a controller decides about users, delegation tokens, ACLs and client quotas.

Each decision is that of one of `scram_users.py`, `tokens.py`, `acls.py`, `quotas.py`. They are the
`security` of a controller, which loads them when the first of them is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fencepost.machines.controller import acls, quotas, scram_users, tokens
from fencepost.machines.controller.config import TokenSettings
from fencepost.machines.controller.decision import Decision
from fencepost.machines.image import ClusterImage
from fencepost.machines.session.principal import Principal
from fencepost.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from fencepost.wire.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from fencepost.wire.api.create_acls import CreateAclsRequest, CreateAclsResponse
from fencepost.wire.api.create_delegation_token import CreateDelegationTokenRequest
from fencepost.wire.api.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from fencepost.wire.api.expire_delegation_token import ExpireDelegationTokenRequest
from fencepost.wire.api.renew_delegation_token import RenewDelegationTokenRequest
from fencepost.wire.types import Uuid


class SecurityDecisions:
    """See the module; they are made on the image that `image` gives."""

    def __init__(self, image: Callable[[], ClusterImage], settings: TokenSettings) -> None:
        self._image = image
        self._settings = settings
        self._acls = acls.PresentAcls()
        secret = settings.secret
        self._token_hmacs = None if secret is None else tokens.TokenHmacs(secret)

    def decide_alter_client_quotas(self, request: AlterClientQuotasRequest) -> Decision:
        """Set and remove client quotas; reply AlterClientQuotasResponse."""
        results, records = quotas.decide_quotas(self._image(), request)
        reply = AlterClientQuotasResponse(entries=results)
        return Decision([] if request.validate_only else records, reply)

    def decide_alter_scram_credentials(self, request: AlterUserScramCredentialsRequest) -> Decision:
        """Set and delete credentials of users; reply AlterUserScramCredentialsResponse."""
        reply, records = scram_users.alter_scram_credentials(self._image(), request)
        return Decision(records, reply)

    def decide_create_token(
        self,
        request: CreateDelegationTokenRequest,
        requester: Principal,
        token_id: str,
        wall_ms: int,
    ) -> Decision:
        """Issue a delegation token; reply CreateDelegationTokenResponse."""
        return tokens.create_token(
            self._image(), self._settings, request, requester, token_id, wall_ms
        )

    def decide_renew_token(
        self, request: RenewDelegationTokenRequest, requester: Principal, wall_ms: int
    ) -> Decision:
        """Have a token expire later; reply RenewDelegationTokenResponse."""
        return tokens.renew_token(
            self._image(), self._settings, self._token_hmacs, request, requester, wall_ms
        )

    def decide_expire_token(
        self, request: ExpireDelegationTokenRequest, requester: Principal, wall_ms: int
    ) -> Decision:
        """Have a token expire at another time; reply ExpireDelegationTokenResponse."""
        return tokens.expire_token(
            self._image(), self._settings, self._token_hmacs, request, requester, wall_ms
        )

    def decide_token_sweep(self, wall_ms: int) -> Decision:
        """Remove expired tokens; reply: how many. As many as `TOKENS_PER_SWEEP` say that there may
        be more to remove."""
        return tokens.sweep_tokens(self._image(), self._settings, wall_ms)

    def decide_create_acls(self, request: CreateAclsRequest, new_ids: Iterator[Uuid]) -> Decision:
        """Add ACLs, under ids that `new_ids` yields; reply CreateAclsResponse."""
        results, records = acls.create_acls(self._image(), self._acls, request, new_ids)
        return Decision(records, CreateAclsResponse(results=results))

    def decide_delete_acls(self, request: DeleteAclsRequest) -> Decision:
        """Remove the ACLs that filters match; reply DeleteAclsResponse."""
        results, records = acls.delete_acls(self._image(), request)
        return Decision(records, DeleteAclsResponse(filter_results=results))
