"""Requests about security, quotas and tokens, and what a cluster without any of them answers.

`CASES` are (request, versions, response): what Apache Kafka answers on a PLAINTEXT listener without
an authorizer. Both the broker's tests and the interoperability tests send them.
"""

from __future__ import annotations

from typing import Any

from fencepost.wire.api.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryDataRequest,
    EntryDataResponse,
    OpData,
)
from fencepost.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from fencepost.wire.api.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from fencepost.wire.api.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from fencepost.wire.api.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from fencepost.wire.api.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from fencepost.wire.api.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from fencepost.wire.api.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from fencepost.wire.api.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    UserName,
)
from fencepost.wire.api.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from fencepost.wire.api.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from fencepost.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from fencepost.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from fencepost.wire.message import Message

ANY: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
RULE = AclCreation(
    resource_type=2,
    resource_name="events",
    resource_pattern_type=3,
    principal="User:ada",
    host="*",
    operation=3,
    permission_type=3,
)
NO_AUTHORIZER = {"error_code": 54, "error_message": "No Authorizer is configured."}
ABSENT_CREDENTIAL = "Attempt to delete a user credential that does not exist"


def _token(
    owner: tuple[str, str], requester: tuple[str, str] = ("User", "ANONYMOUS")
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=64,
        principal_type=owner[0],
        principal_name=owner[1],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[1],
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )


def _quotas(*components: tuple[str, int, str | None]) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=how, match=match)
            for kind, how, match in components
        ],
        strict=False,
    )


def _no_quotas(error_code: int, message: str) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error_code, error_message=message, entries=None)


def quota_entry(*values: float | None) -> EntryDataRequest:
    """A change of the quotas of one user; None removes."""
    ops = [
        OpData(key="consumer_byte_rate", value=value or 0.0, remove=value is None)
        for value in values
    ]
    return EntryDataRequest(entity=[EntityData(entity_type="user", entity_name="ada")], ops=ops)


def quota_answer(error_code: int = 0, error_message: str | None = None) -> EntryDataResponse:
    """What such an entry is answered."""
    return EntryDataResponse(
        error_code=error_code,
        error_message=error_message,
        entity=[EntityData(entity_type="user", entity_name="ada")],
    )


def credential(name: str, mechanism: int = 1) -> ScramCredentialUpsertion:
    """A SCRAM user to be created."""
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=4096, salt=b"salt", salted_password=b"p" * 32
    )


def _changed(*users: tuple[str, int, str]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=error, error_message=message)
            for user, error, message in users
        ]
    )


def _delete(*users: tuple[str, int]) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=name, mechanism=how) for name, how in users],
        upsertions=[],
    )


def by_user(message: Message) -> object:
    """The message, or its results by user: Kafka's order of those is that of a hash table."""
    results = getattr(message, "results", None)
    if results and hasattr(results[0], "user"):
        return {one.user: one for one in results}
    return message


CASES: list[tuple[Message, range, Message]] = [
    (SaslHandshakeRequest(mechanism="PLAIN"), range(2), SaslHandshakeResponse(error_code=34)),
    (
        SaslAuthenticateRequest(auth_bytes=b"secret"),
        range(3),
        SaslAuthenticateResponse(
            error_code=34,
            error_message="SaslAuthenticate request received after successful authentication",
        ),
    ),
    (
        DescribeAclsRequest(**ANY),
        range(1, 4),
        DescribeAclsResponse(
            error_code=54, error_message="No Authorizer is configured on the broker"
        ),
    ),
    (
        CreateAclsRequest(creations=[RULE, RULE]),
        range(1, 4),
        CreateAclsResponse(results=[AclCreationResult(**NO_AUTHORIZER)] * 2),
    ),
    (CreateAclsRequest(creations=[]), range(1, 4), CreateAclsResponse()),
    (
        DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY)] * 2),
        range(1, 4),
        DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(**NO_AUTHORIZER)] * 2),
    ),
    (
        CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1),
        range(1, 3),
        _token(("User", "ANONYMOUS"), ("", "")),
    ),
    (
        CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1),
        range(3, 4),
        _token(("User", "ANONYMOUS")),
    ),
    (
        CreateDelegationTokenRequest(
            owner_principal_type="User", owner_principal_name="ada", max_lifetime_ms=-1
        ),
        range(3, 4),
        _token(("User", "ada")),
    ),
    (
        RenewDelegationTokenRequest(hmac=b"token", renew_period_ms=-1),
        range(1, 3),
        RenewDelegationTokenResponse(error_code=64, expiry_timestamp_ms=-1),
    ),
    (
        ExpireDelegationTokenRequest(hmac=b"token", expiry_time_period_ms=-1),
        range(1, 3),
        ExpireDelegationTokenResponse(error_code=64, expiry_timestamp_ms=-1),
    ),
    (
        DescribeDelegationTokenRequest(owners=None),
        range(1, 4),
        DescribeDelegationTokenResponse(error_code=64),
    ),
    (_quotas(), range(2), DescribeClientQuotasResponse()),
    (_quotas(("user", 2, None)), range(2), DescribeClientQuotasResponse()),
    (_quotas(("client-id", 0, "a"), ("user", 1, None)), range(2), DescribeClientQuotasResponse()),
    (_quotas(("ip", 0, "127.0.0.1")), range(2), DescribeClientQuotasResponse()),
    (
        _quotas(("topic", 2, None)),
        range(2),
        _no_quotas(35, "Unsupported entity type topic"),
    ),
    (
        _quotas(("topic", 9, "a")),
        range(2),
        _no_quotas(35, "Unsupported entity type topic"),
    ),
    (_quotas(("", 2, None)), range(2), _no_quotas(42, "Invalid empty entity type.")),
    (_quotas(("user", 9, None)), range(2), _no_quotas(42, "Unknown match type 9")),
    (
        _quotas(("user", 0, None)),
        range(2),
        _no_quotas(42, "Request specified MATCH_TYPE_EXACT, but set match string to null."),
    ),
    (
        _quotas(("user", 1, "a")),
        range(2),
        _no_quotas(42, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
    ),
    (
        _quotas(("user", 2, "a")),
        range(2),
        _no_quotas(
            42, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
        ),
    ),
    (
        _quotas(("user", 2, None), ("user", 2, None)),
        range(2),
        _no_quotas(42, "Entity type user cannot appear more than once in the filter."),
    ),
    (
        _quotas(("user", 2, None), ("ip", 2, None)),
        range(2),
        _no_quotas(
            42,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        ),
    ),
    (
        AlterClientQuotasRequest(entries=[quota_entry(None)], validate_only=False),
        range(2),
        AlterClientQuotasResponse(entries=[quota_answer()]),
    ),
    (
        DescribeUserScramCredentialsRequest(users=None),
        range(1),
        DescribeUserScramCredentialsResponse(),
    ),
    (
        DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in "aba"]),
        range(1),
        DescribeUserScramCredentialsResponse(
            results=[
                DescribeUserScramCredentialsResult(
                    user="a",
                    error_code=92,
                    error_message="Cannot describe SCRAM credentials for the same user twice in a "
                    "single request: a",
                ),
                DescribeUserScramCredentialsResult(
                    user="b",
                    error_code=91,
                    error_message="Attempt to describe a user credential that does not exist: b",
                ),
            ]
        ),
    ),
    (_delete(("a", 1), ("a", 2)), range(1), _changed(("a", 91, ABSENT_CREDENTIAL))),
    (
        _delete(("", 1), ("b", 9)),
        range(1),
        _changed(("", 93, "Username must not be empty"), ("b", 33, "Unknown SCRAM mechanism")),
    ),
    (
        AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name="a", mechanism=1)],
            upsertions=[credential("a"), credential("b", 0), credential("")],
        ),
        range(1),
        _changed(
            ("", 93, "Username must not be empty"),
            ("a", 91, ABSENT_CREDENTIAL),
            ("b", 33, "Unknown SCRAM mechanism"),
        ),
    ),
]
