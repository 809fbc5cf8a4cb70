"""RenewDelegationToken (key 39): put off the time a delegation token expires.

Its owner and its renewers may, up to the token's greatest age. Handled by the controller; a broker
forwards it. The connection must be authenticated, and not with a token itself.

KIP-48. v1 throttles after the answer (KIP-219), v2 is flexible (KIP-482). Since 4.0 brokers read v1
and up (KIP-896).
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, field
from fencepost.wire.secrets import ALWAYS
from fencepost.wire.types import Bytes, Int16, Int32, Int64


class RenewDelegationTokenRequest(
    Request["RenewDelegationTokenResponse"], api_key=39, versions="0-2", flexible="2+"
):
    """Puts off the time a token expires."""

    hmac: Bytes = field(secret=ALWAYS, doc="The token's secret, which names it.")
    renew_period_ms: Int64 = field(
        doc=(
            "Milliseconds from now on that it is to last; -1, like all below 1, for the server's "
            "limit, `delegation.token.expiry.time.ms`, which nothing exceeds."
        ),
    )


class RenewDelegationTokenResponse(
    Message, api_key=39, kind="response", versions="0-2", flexible="2+"
):
    """Until when the token lasts."""

    error_code: Int16 = field(
        doc=(
            "0; 61 when tokens are switched off, 62 for an unknown token, 63 when the caller is "
            "neither owner nor renewer, 64 on a connection that may not ask, 66 when it has "
            "expired."
        ),
    )
    expiry_timestamp_ms: Int64 = field(
        doc="When it expires now, in milliseconds since 1970; no meaning on an error.",
    )
    throttle_time_ms: Int32 = field(
        doc="Milliseconds for which a quota held this request back; 0 when none did.",
    )
