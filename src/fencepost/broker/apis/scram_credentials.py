"""DescribeUserScramCredentials, AlterUserScramCredentials (keys 50, 51) v0: no user has any.

Nothing here authenticates by SCRAM. A user that is named, to be described or deleted, is
RESOURCE_NOT_FOUND, as in a cluster of Apache Kafka without SCRAM users; one that is to be created
is UNSUPPORTED_VERSION, as Kafka answers below the `metadata.version` that has SCRAM. Each user is
answered once.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import ALTER_CLUSTER, DESCRIBE_CLUSTER
from fencepost.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from fencepost.wire.api.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from fencepost.wire.errors import ErrorCode

MECHANISMS: Final = (1, 2)
"""SCRAM-SHA-256 and SCRAM-SHA-512."""
NOT_OFFERED: Final = "SCRAM is not offered: this cluster stores no credentials."


@handles(DescribeUserScramCredentialsRequest, listeners=(BROKER, CONTROLLER))
def handle_describe(
    context: RequestContext, request: DescribeUserScramCredentialsRequest, *, access: Access
) -> DescribeUserScramCredentialsResponse:
    """Say of each user named that it has no credentials; there is none to list."""
    if refusal := access.refusal(context, DESCRIBE_CLUSTER):
        return DescribeUserScramCredentialsResponse(error_code=refusal)
    named = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        results=[_described(name, times) for name, times in named.items()]
    )


def _described(name: str, times: int) -> DescribeUserScramCredentialsResult:
    if times > 1:
        error = ErrorCode.DUPLICATE_RESOURCE
        message = "Cannot describe SCRAM credentials for the same user twice in a single request: "
    else:
        error = ErrorCode.RESOURCE_NOT_FOUND
        message = "Attempt to describe a user credential that does not exist: "
    return DescribeUserScramCredentialsResult(
        user=name, error_code=error, error_message=message + name
    )


@handles(AlterUserScramCredentialsRequest, listeners=(BROKER, CONTROLLER))
def handle_alter(
    context: RequestContext, request: AlterUserScramCredentialsRequest, *, access: Access
) -> AlterUserScramCredentialsResponse:
    """Refuse each user."""
    if forbidden := access.refusal(context, ALTER_CLUSTER):
        users = dict.fromkeys([gone.name for gone in request.deletions])
        users.update(dict.fromkeys([new.name for new in request.upsertions]))
        return AlterUserScramCredentialsResponse(
            results=[
                AlterUserScramCredentialsResult(user=user, error_code=forbidden, error_message=None)
                for user in users
            ]
        )
    absent = (
        ErrorCode.RESOURCE_NOT_FOUND,
        "Attempt to delete a user credential that does not exist",
    )
    refusals: dict[str, tuple[ErrorCode, str]] = {}
    for gone in request.deletions:
        refusals.setdefault(gone.name, _refusal_of(gone.name, gone.mechanism) or absent)
    for new in request.upsertions:
        refusal = _refusal_of(new.name, new.mechanism)
        refusals.setdefault(new.name, refusal or (ErrorCode.UNSUPPORTED_VERSION, NOT_OFFERED))
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=error, error_message=message)
            for user, (error, message) in refusals.items()
        ]
    )


def _refusal_of(name: str, mechanism: int) -> tuple[ErrorCode, str] | None:
    """Why no broker could take this user, if there is a reason."""
    if not name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if mechanism not in MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    return None
