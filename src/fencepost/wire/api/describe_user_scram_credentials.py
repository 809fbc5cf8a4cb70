"""DescribeUserScramCredentials (key 50): which SCRAM credentials users have, without their secrets.

Answered by brokers and KRaft controllers. KIP-554; v0 is all there is. The caller must be allowed
to describe the cluster.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.types import Int8, Int16, Int32, String


class UserName(Struct):
    """A user to describe."""

    name: String = field(doc="Name of the user.")


class DescribeUserScramCredentialsRequest(
    Request["DescribeUserScramCredentialsResponse"], api_key=50, versions="0", flexible="0+"
):
    """Asks which SCRAM credentials users have."""

    users: list[UserName] | None = field(
        doc="The users, each once; null or empty for all that have credentials.",
    )


class CredentialInfo(Struct):
    """A credential of a user."""

    mechanism: Int8 = field(doc="0 unknown, 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.")
    iterations: Int32 = field(doc="Rounds of PBKDF2 it was made with.")


class DescribeUserScramCredentialsResult(Struct):
    """The credentials of one user."""

    user: String = field(doc="Name of the user.")
    error_code: Int16 = field(
        doc="0; 91 when the user has none, 92 when the request named the user twice.",
    )
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    credential_infos: list[CredentialInfo] = field(
        doc="The credentials, at most one per mechanism.",
    )


class DescribeUserScramCredentialsResponse(
    Message, api_key=50, kind="response", versions="0", flexible="0+"
):
    """The credentials that were asked for."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    error_code: Int16 = field(
        doc="Error of the whole request, such as 31; those of one user are in its entry.",
    )
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    results: list[DescribeUserScramCredentialsResult] = field(doc="One entry per user.")
