"""SaslHandshake, SaslAuthenticate (keys 17, 36): ILLEGAL_SASL_STATE, since no listener uses SASL.

Brokers and controllers answer as Apache Kafka does on a PLAINTEXT listener: a connection there is
authenticated when it begins. A client that is configured for SASL ends with an error that says so.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.net.registry import BROKER, CONTROLLER, handles
from fencepost.runtime.requests.context import RequestContext
from fencepost.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from fencepost.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from fencepost.wire.errors import ErrorCode

AUTHENTICATED: Final = "SaslAuthenticate request received after successful authentication"


@handles(SaslHandshakeRequest, listeners=(BROKER, CONTROLLER))
def handle_handshake(
    context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    """Refuse the mechanism; none is enabled."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


@handles(SaslAuthenticateRequest, listeners=(BROKER, CONTROLLER))
def handle_authenticate(
    context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """Refuse to authenticate the client again."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=AUTHENTICATED
    )
