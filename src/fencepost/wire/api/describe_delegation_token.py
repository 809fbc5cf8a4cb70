"""DescribeDelegationToken (key 41): the delegation tokens a caller may see, with their secrets.

These are the ones it owns or may renew, and those it has the right to describe. Any broker answers.
The connection must be authenticated, and not with a token itself.

KIP-48. v1 throttles after the answer (KIP-219), v2 is flexible (KIP-482), v3 tells who asked for a
token (KIP-373). Since 4.0 brokers read v1 and up (KIP-896).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, Struct, field
from fencepost.wire.secrets import ALWAYS
from fencepost.wire.types import Bytes, Int16, Int32, Int64, String


class DescribeDelegationTokenOwner(Struct):
    """A principal whose tokens are wanted."""

    principal_type: String = field(doc="Type of the principal, such as `User`.")
    principal_name: String = field(doc="Name of the principal.")


class DescribeDelegationTokenRequest(
    Request["DescribeDelegationTokenResponse"], api_key=41, versions="0-3", flexible="2+"
):
    """Asks for the tokens the caller may see."""

    owners: list[DescribeDelegationTokenOwner] | None = field(
        doc="Whose tokens, as owner or renewer; null for all principals', empty for none.",
    )


class DescribedDelegationTokenRenewer(Struct):
    """A principal that may renew the token, besides its owner."""

    principal_type: String = field(doc="Type of the principal.")
    principal_name: String = field(doc="Name of the principal.")


class DescribedDelegationToken(Struct):
    """A token; times are in milliseconds since 1970."""

    principal_type: String = field(doc="Type of the owner.")
    principal_name: String = field(doc="Name of the owner.")
    token_requester_principal_type: String = field(
        "3+",
        doc="Type of the principal that asked for the token.",
    )
    token_requester_principal_name: String = field("3+", doc="Name of that principal.")
    issue_timestamp: Int64 = field(doc="When it was made, in milliseconds since 1970.")
    expiry_timestamp: Int64 = field(
        doc="When it expires unless it is renewed, in milliseconds since 1970.",
    )
    max_timestamp: Int64 = field(
        doc="When it expires in any case, in milliseconds since 1970.",
    )
    token_id: String = field(doc="Id of the token, which is no secret.")
    hmac: Bytes = field(
        secret=ALWAYS,
        doc="The secret; it also names the token when it is renewed or expired.",
    )
    renewers: list[DescribedDelegationTokenRenewer] = field(
        doc="Those who may renew or expire it; the owner always may.",
    )


class DescribeDelegationTokenResponse(
    Message, api_key=41, kind="response", versions="0-3", flexible="2+"
):
    """The tokens that were asked for."""

    error_code: Int16 = field(
        doc="0; 61 when tokens are switched off, 64 on a connection that may not ask.",
    )
    tokens: list[DescribedDelegationToken] = field(
        doc="The tokens; those the caller may not see are left out without an error.",
    )
    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
