"""ACLs, users of SCRAM, quotas of clients and delegation tokens. No view has a secret."""

from __future__ import annotations

from typing import ClassVar

from fencepost.client.acls import AclBinding
from fencepost.client.client_quotas import ClientQuotaEntity
from fencepost.client.delegation_tokens import DelegationToken
from fencepost.client.scram_users import ScramCredentialInfo
from fencepost.views.times import iso_time
from fencepost.views.view import View


class AclView(View, frozen=True):
    """A rule: whether a principal may do something to resources."""

    columns: ClassVar = {
        "principal": "principal",
        "permission": "permission",
        "operation": "operation",
        "resource": "resource",
        "pattern": "pattern",
        "host": "host",
    }

    principal: str
    permission: str
    operation: str
    resource_type: str
    name: str
    pattern: str
    host: str

    @classmethod
    def of(cls, binding: AclBinding) -> AclView:
        return cls(
            binding.principal,
            binding.permission.name,
            binding.operation.name,
            binding.resource_type.name,
            binding.name,
            binding.pattern_type.name,
            binding.host,
        )

    @property
    def resource(self) -> str:
        kind = self.resource_type.lower().replace("_", "-")
        return kind if kind == "cluster" else f"{kind}:{self.name}"


class ChangedAcls(View, frozen=True):
    """The rules that were added or removed, or would be."""

    acls: list[AclView]
    done: str


class UserView(View, frozen=True):
    """A credential of a user."""

    columns: ClassVar = {"user": "user", "mechanism": "mechanism", "iterations": "iterations"}

    user: str
    mechanism: str
    iterations: int

    @classmethod
    def of(cls, user: str, info: ScramCredentialInfo) -> UserView:
        return cls(user, info.mechanism.mechanism_name, info.iterations)


class ChangedUser(View, frozen=True):
    """The mechanisms whose credentials of a user were set or deleted."""

    user: str
    mechanisms: list[str]
    done: str


class QuotaView(View, frozen=True):
    """A quota; a name of None in `entity` is the default of its type."""

    columns: ClassVar = {"for": "whom", "quota": "quota", "value": "shown_value"}

    entity: dict[str, str | None]
    quota: str
    value: float

    @property
    def whom(self) -> str:
        return str(ClientQuotaEntity.of(self.entity))

    @property
    def shown_value(self) -> str:
        return f"{self.value:.15g}"


class ChangedQuotas(View, frozen=True):
    """The quotas of an entity that were set, by key; None for one that was removed."""

    entity: dict[str, str | None]
    quotas: dict[str, float | None]
    done: str


class TokenView(View, frozen=True):
    """A delegation token, without the secret in it."""

    columns: ClassVar = {
        "token id": "token_id",
        "owner": "owner",
        "renewers": "shown_renewers",
        "issued": "issued",
        "expires": "expires",
        "at the latest": "latest",
    }

    token_id: str
    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int

    @classmethod
    def of(cls, token: DelegationToken) -> TokenView:
        return cls(
            token.token_id,
            token.owner,
            token.requester,
            list(token.renewers),
            token.issue_timestamp_ms,
            token.expiry_timestamp_ms,
            token.max_timestamp_ms,
        )

    @property
    def shown_renewers(self) -> str:
        return ",".join(self.renewers) or "-"

    @property
    def issued(self) -> str:
        return iso_time(self.issue_timestamp_ms)

    @property
    def expires(self) -> str:
        return iso_time(self.expiry_timestamp_ms)

    @property
    def latest(self) -> str:
        return iso_time(self.max_timestamp_ms)


class CreatedToken(View, frozen=True):
    """A new token, and the file that a client's login by it was written to."""

    token: TokenView
    properties_file: str


class ChangedToken(View, frozen=True):
    """Until when a token is good, in ms since 1970."""

    token_id: str
    expiry_timestamp_ms: int
    done: str
