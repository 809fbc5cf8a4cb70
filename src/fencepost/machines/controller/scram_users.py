"""SCRAM credentials of users are set and deleted (KIP-554, in KRaft by KIP-900).

A request names each user once. What is good of it is written as one batch, whatever is refused.
The salted password of a request is as good as the password to a man in the middle of a login; the
controller derives the keys of RFC 5802 from it and keeps only those.
"""

from __future__ import annotations

from fencepost.machines.controller.decision import Refused
from fencepost.machines.image import SCRAM_SINCE, ClusterImage, ScramMechanism
from fencepost.machines.image.scram import credential_record
from fencepost.machines.scram_keys import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    credential_of_salted_password,
)
from fencepost.wire.api.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import RemoveUserScramCredentialRecord


def alter_scram_credentials(
    image: ClusterImage, request: AlterUserScramCredentialsRequest
) -> tuple[AlterUserScramCredentialsResponse, list[Message]]:
    """The response, a row for each user, and the records of those that are changed."""
    refusals: dict[str, AlterUserScramCredentialsResult] = {}
    records: dict[str, Message] = {}
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions]
    changes += request.upsertions
    for change in changes:
        user = change.name
        if user in refusals:
            continue
        try:
            if records.pop(user, None) is not None:
                raise Refused(
                    ErrorCode.DUPLICATE_RESOURCE,
                    "A user credential cannot be altered twice in the same request",
                )
            if isinstance(change, ScramCredentialDeletion):
                records[user] = _deletion(image, change)
            else:
                records[user] = _upsertion(image, change)
        except Refused as refused:
            # What is kept is the row: the error has this frame, in whose hands it would be.
            refusals[user] = AlterUserScramCredentialsResult(
                user=user, error_code=refused.error, error_message=refused.message
            )
    results = [
        AlterUserScramCredentialsResult(user=user, error_code=ErrorCode.NONE, error_message=None)
        for user in records
    ]
    results += refusals.values()
    return AlterUserScramCredentialsResponse(results=results), list(records.values())


def _deletion(image: ClusterImage, change: ScramCredentialDeletion) -> Message:
    mechanism = _checked(image, change)
    if (change.name, int(mechanism)) not in image.scram:
        raise Refused(
            ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        )
    return RemoveUserScramCredentialRecord(name=change.name, mechanism=mechanism)


def _upsertion(image: ClusterImage, change: ScramCredentialUpsertion) -> Message:
    mechanism = _checked(image, change)
    if change.iterations < ITERATIONS_MIN:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not change.salted_password:  # no key of an HMAC in Java, whose error is none of these
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    credential = credential_of_salted_password(
        mechanism, bytes(change.salted_password), bytes(change.salt), change.iterations
    )
    return credential_record(change.name, mechanism, credential)


def _checked(
    image: ClusterImage, change: ScramCredentialDeletion | ScramCredentialUpsertion
) -> ScramMechanism:
    """The mechanism of a change that the cluster can take. Raises Refused, in Kafka's order."""
    if image.metadata_version < SCRAM_SINCE:
        raise Refused(
            ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM"
        )
    if not change.name:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    try:
        return ScramMechanism(change.mechanism)
    except ValueError:
        raise Refused(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism") from None
