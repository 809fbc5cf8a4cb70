"""DescribeUserScramCredentials, AlterUserScramCredentials (keys 50, 51) v0: the users of SCRAM.

Credentials are in the metadata log, so every node describes them from its own image, and the active
controller alters them (`machines.controller.scram_users`). A description has the mechanisms and
iterations of a user; salts and keys do not leave the node but by a login.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from fencepost.broker.cluster.controller_requests import decide_here, take_to_controller
from fencepost.broker.cluster.controller_service import ControllerService
from fencepost.broker.cluster.forwarding import Forwarder
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.machines.image import ScramMechanism
from fencepost.machines.image.scram import ScramImage
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import DESCRIBE_CLUSTER
from fencepost.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from fencepost.wire.api.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from fencepost.wire.errors import ErrorCode


@handles(DescribeUserScramCredentialsRequest, listeners=(BROKER, CONTROLLER))
def handle_describe(
    context: RequestContext,
    request: DescribeUserScramCredentialsRequest,
    *,
    access: Access,
    metadata: MetadataCache,
) -> DescribeUserScramCredentialsResponse:
    """Describe the users that are named, or all if none is."""
    if refusal := access.refusal(context, DESCRIBE_CLUSTER):
        rows = [
            DescribeUserScramCredentialsResult(
                user=user.name, error_code=refusal, error_message=None
            )
            for user in request.users or ()
        ]
        return DescribeUserScramCredentialsResponse(error_code=refusal, results=rows)
    credentials = metadata.image.scram
    if request.users:
        named = Counter(user.name for user in request.users)
    else:
        named = Counter(dict.fromkeys(sorted({user for user, _ in credentials}), 1))
    return DescribeUserScramCredentialsResponse(
        results=[_described(credentials, name, times) for name, times in named.items()]
    )


def _described(
    credentials: ScramImage, name: str, times: int
) -> DescribeUserScramCredentialsResult:
    infos = [
        CredentialInfo(mechanism=mechanism, iterations=found.iterations)
        for mechanism in ScramMechanism
        if (found := credentials.get((name, int(mechanism)))) is not None
    ]
    if times > 1:
        error = ErrorCode.DUPLICATE_RESOURCE
        message = "Cannot describe SCRAM credentials for the same user twice in a single request: "
    elif not infos:
        error = ErrorCode.RESOURCE_NOT_FOUND
        message = "Attempt to describe a user credential that does not exist: "
    else:
        return DescribeUserScramCredentialsResult(user=name, credential_infos=infos)
    return DescribeUserScramCredentialsResult(
        user=name, error_code=error, error_message=message + name
    )


@handles(AlterUserScramCredentialsRequest, listeners=(BROKER,), stores_text=True)
def handle_alter(
    context: PendingRequest, request: AlterUserScramCredentialsRequest, *, forwarder: Forwarder
) -> None:
    """Have the active controller decide."""
    take_to_controller(forwarder, context, request, _refused)


@handles(AlterUserScramCredentialsRequest, listeners=(CONTROLLER,), stores_text=True)
def handle_alter_here(
    context: PendingRequest,
    request: AlterUserScramCredentialsRequest,
    *,
    controller: ControllerService,
) -> None:
    """Let the controller decide; answer when that is committed."""
    decide_here(controller, context, request, _refused)


def _refused(request: Any, error: ErrorCode) -> AlterUserScramCredentialsResponse:
    """The response with that error for every user: the API has no error for the whole."""
    users = dict.fromkeys(change.name for change in (*request.deletions, *request.upsertions))
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=error, error_message=None)
            for user in users
        ]
    )
