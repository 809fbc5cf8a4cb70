"""SaslHandshake, SaslAuthenticate (keys 17, 36): the login of the connection that they come by.

On a listener without SASL they are ILLEGAL_SASL_STATE, as in Apache Kafka: a connection there is
authenticated when it begins. A client that is configured for SASL ends with an error that says so.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from fencepost.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from fencepost.wire.errors import ErrorCode

AUTHENTICATED: Final = "SaslAuthenticate request received after successful authentication"


@handles(SaslHandshakeRequest, listeners=(BROKER, CONTROLLER))
def handle_handshake(
    context: PendingRequest, request: SaslHandshakeRequest
) -> SaslHandshakeResponse | None:
    """Begin a login by the mechanism that the client names."""
    if context.login is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    context.login.shake_hands(context, request)
    return None


@handles(SaslAuthenticateRequest, listeners=(BROKER, CONTROLLER))
def handle_authenticate(
    context: PendingRequest, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | None:
    """Go on with it."""
    if context.login is None or not context.is_before_login:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=AUTHENTICATED
        )
    context.login.authenticate(context, request)
    return None
