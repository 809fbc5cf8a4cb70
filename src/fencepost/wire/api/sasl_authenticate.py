"""SaslAuthenticate (key 36): one step of an authentication (KIP-152).

v1 tells how long the authentication lasts, after which the client must repeat it on the same
connection (KIP-368); v2 is flexible.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, field
from fencepost.wire.secrets import ALWAYS
from fencepost.wire.types import Bytes, Int16, Int64, String


class SaslAuthenticateRequest(
    Request["SaslAuthenticateResponse"], api_key=36, versions="0-2", flexible="2+"
):
    """What the client has to say, in the mechanism's format."""

    auth_bytes: Bytes = field(secret=ALWAYS, doc="The token.")


class SaslAuthenticateResponse(Message, api_key=36, kind="response", versions="0-2", flexible="2+"):
    """What the server has to say, in the mechanism's format."""

    error_code: Int16 = field(doc="0; 58 when authentication failed, 34 out of order.")
    error_message: String | None = field(
        doc="What went wrong in words, or null when `error_code` says enough.",
    )
    auth_bytes: Bytes = field(secret=ALWAYS, doc="The token.")
    session_lifetime_ms: Int64 = field(
        "1+",
        ignorable=True,
        doc="Milliseconds until the client must authenticate again; 0 for never.",
    )
