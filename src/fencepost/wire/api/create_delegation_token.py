"""CreateDelegationToken (key 38): get a token that others can authenticate with for a while.

The token's id and its base64 HMAC serve as user and password of SASL/SCRAM, with the extension
`tokenauth=true`; a client that has them acts as the owner. Handled by the controller; a broker
forwards it. The connection must be authenticated, and not with a token itself.

KIP-48. v1 throttles after the answer (KIP-219), v2 is flexible (KIP-482), v3 lets a caller create
tokens for other owners (KIP-373). Since 4.0 brokers read v1 and up (KIP-896).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.secrets import ALWAYS
from fencepost.wire.types import Bytes, Int16, Int32, Int64, String


class CreatableRenewers(Struct):
    """A principal that may renew the token, besides its owner."""

    principal_type: String = field(doc="Type of the principal; only `User` is taken.")
    principal_name: String = field(doc="Name of the principal.")


class CreateDelegationTokenRequest(
    Request["CreateDelegationTokenResponse"], api_key=38, versions="0-3", flexible="2+"
):
    """Asks for a token with which any client that has it can authenticate as the owner."""

    owner_principal_type: String | None = field(
        "3+",
        doc="Type of the owner, such as `User`; null or empty with an owner that is the caller.",
    )
    owner_principal_name: String | None = field(
        "3+",
        doc=(
            "Name of the owner; null or empty for the caller. Another one takes the right to "
            "create tokens for that user. Leave both empty, not null, to encode up to v2."
        ),
    )
    renewers: list[CreatableRenewers] = field(
        doc="Those who may renew or expire the token; the owner always may.",
    )
    max_lifetime_ms: Int64 = field(
        doc=(
            "Milliseconds after which it can be renewed no more; -1, like all below 1, for the "
            "server's limit, `delegation.token.max.lifetime.ms`, which nothing exceeds."
        ),
    )


class CreateDelegationTokenResponse(
    Message, api_key=38, kind="response", versions="0-3", flexible="2+"
):
    """The token; on an error only the principals and `throttle_time_ms` mean anything."""

    error_code: Int16 = field(
        doc=(
            "0; 61 when tokens are switched off, 64 on a connection that may not ask, 65 for an "
            "owner the caller may not act for, 67 for a renewer that is no `User`."
        ),
    )
    principal_type: String = field(doc="Type of the owner.")
    principal_name: String = field(doc="Name of the owner.")
    token_requester_principal_type: String = field(
        "3+",
        doc="Type of the caller that asked for the token.",
    )
    token_requester_principal_name: String = field("3+", doc="Name of that caller.")
    issue_timestamp_ms: Int64 = field(doc="When it was made, in milliseconds since 1970.")
    expiry_timestamp_ms: Int64 = field(
        doc="When it expires unless it is renewed, in milliseconds since 1970.",
    )
    max_timestamp_ms: Int64 = field(
        doc="When it expires in any case, in milliseconds since 1970.",
    )
    token_id: String = field(doc="Id of the token, which is no secret.")
    hmac: Bytes = field(
        secret=ALWAYS,
        doc="The secret; it also names the token when it is renewed or expired.",
    )
    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
