"""AlterUserScramCredentials (key 51): set and delete the SCRAM credentials of users.

Handled by the controller; a broker forwards it. The password never travels: the client salts and
hashes it, and the controller derives the keys of RFC 5802 from that. What travels is still enough
to log in with, so the connection should be encrypted. Every user succeeds or fails alone.

KIP-554; v0 is all there is. The caller must be allowed to alter the cluster.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.secrets import ALWAYS
from fencepost.wire.types import Bytes, Int8, Int16, Int32, String


class ScramCredentialDeletion(Struct):
    """A credential to delete."""

    name: String = field(doc="Name of the user.")
    mechanism: Int8 = field(doc="1 SCRAM-SHA-256, 2 SCRAM-SHA-512.")


class ScramCredentialUpsertion(Struct):
    """A credential to add, or to put in place of the one of that mechanism."""

    name: String = field(doc="Name of the user; not empty.")
    mechanism: Int8 = field(doc="1 SCRAM-SHA-256, 2 SCRAM-SHA-512.")
    iterations: Int32 = field(
        doc="Rounds of PBKDF2 behind `salted_password`, 4096 to 16384.",
    )
    salt: Bytes = field(
        secret=ALWAYS, doc="Random bytes of the client's choice; users get them when they log in."
    )
    salted_password: Bytes = field(
        secret=ALWAYS,
        doc="PBKDF2 with the mechanism's HMAC over password, salt and iterations: 32 or 64 bytes.",
    )


class AlterUserScramCredentialsRequest(
    Request["AlterUserScramCredentialsResponse"], api_key=51, versions="0", flexible="0+"
):
    """Sets and deletes SCRAM credentials.

    KRaft refuses a user that is named twice, also for two mechanisms; they take two requests.
    """

    deletions: list[ScramCredentialDeletion] = field(doc="Credentials to delete.")
    upsertions: list[ScramCredentialUpsertion] = field(doc="Credentials to set.")


class AlterUserScramCredentialsResult(Struct):
    """What became of one user."""

    user: String = field(doc="Name of the user.")
    error_code: Int16 = field(
        doc=(
            "0; 31 when the caller may not, 33 another mechanism, 91 nothing to delete, 92 the "
            "user was named twice, 93 an empty name or iterations out of range."
        ),
    )
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )


class AlterUserScramCredentialsResponse(
    Message, api_key=51, kind="response", versions="0", flexible="0+"
):
    """What became of the changes; errors of the whole request are in every entry."""

    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
    results: list[AlterUserScramCredentialsResult] = field(doc="One entry per user, in any order.")
