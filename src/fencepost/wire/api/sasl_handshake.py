"""SaslHandshake (key 17): agree on a SASL mechanism before authenticating.

What follows depends on the version: after v0 the mechanism's tokens travel bare, each behind an
int32 length, without headers; after v1 they are wrapped in SaslAuthenticate (KIP-152). One of two
APIs that never became flexible.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Request, field
from fencepost.wire.types import Int16, String


class SaslHandshakeRequest(
    Request["SaslHandshakeResponse"], api_key=17, versions="0-1", flexible="none"
):
    """Names the mechanism the client wants to use."""

    mechanism: String = field(doc="Name of the mechanism, such as `PLAIN` or `SCRAM-SHA-256`.")


class SaslHandshakeResponse(Message, api_key=17, kind="response", versions="0-1", flexible="none"):
    """Whether the mechanism is there, and which ones are."""

    error_code: Int16 = field(
        doc="0; 33 for another mechanism, 34 when authentication is over or not wanted.",
    )
    mechanisms: list[String] = field(doc="Mechanisms of this listener.")
