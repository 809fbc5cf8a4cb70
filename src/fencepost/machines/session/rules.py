"""What the sessions of one listener go by."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from msgspec import Struct, field

LOGIN_FRAME_BYTES_MAX: Final = 524_288
"""The default of `sasl.server.max.receive.size`."""
FAILURE_DELAY_MS: Final = 100
"""The default of `connection.failed.authentication.delay.ms`."""


class SecurityProtocol(IntEnum):
    """How a listener is secured, by the ids that registrations of brokers have."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def has_tls(self) -> bool:
        """Whether a connection begins with a TLS handshake."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether clients authenticate with SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class SessionRules(Struct, frozen=True):
    """What the sessions of one listener go by."""

    max_frame_bytes: int
    """`socket.request.max.bytes`: of a frame without its length."""
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    mechanisms: tuple[str, ...] = ()
    """Those that are enabled (`sasl.enabled.mechanisms`)."""
    login_frame_bytes_max: int = LOGIN_FRAME_BYTES_MAX
    """`sasl.server.max.receive.size`: of a frame before authentication is complete."""
    max_session_ms: int = 0
    """`connections.max.reauth.ms`: how long a client may go on before it authenticates again; 0 for
    as long as it likes (KIP-368)."""
    failure_delay_ms: int = FAILURE_DELAY_MS
    """`connection.failed.authentication.delay.ms`: between a failed authentication and its answer,
    behind which the connection is closed."""
    max_session_ms_of: Mapping[str, int] = field(default_factory=dict)
    """In place of `max_session_ms`, by mechanism."""
