"""How the connections of one listener are secured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from fencepost.broker.config.listener_config import ListenerConfig
from fencepost.machines.session import SecurityProtocol, SessionRules

if TYPE_CHECKING:
    from fencepost.broker.security.server_tls import ServerTls
    from fencepost.machines.sasl import SaslServer

LOGIN_TIMEOUT_MS: Final = 60_000
"""The default of `fencepost.sasl.login.timeout.ms`."""


class ListenerSecurity(Struct, frozen=True):
    """What all connections of a listener have in common."""

    name: str
    """The listener's."""
    rules: SessionRules
    """What its sessions go by."""
    mechanisms: Mapping[str, Callable[[], SaslServer]] = field(default_factory=dict)
    """What begins a login, by the name of the mechanism; one for each that `rules` has."""
    tls: ServerTls | None = None
    """TLS of its connections; None where its protocol has none."""
    login_timeout_ms: int = LOGIN_TIMEOUT_MS
    """`fencepost.sasl.login.timeout.ms`: from connecting to the end of the first login by SASL."""


SecurityOf = Callable[[str], ListenerSecurity]
"""Makes the security of a listener, given its name."""


def session_rules(
    protocol: SecurityProtocol, of: Callable[[str | None], ListenerConfig]
) -> SessionRules:
    """What the sessions of a listener go by; `of` gives its configs, of one mechanism or none."""
    plain = of(None)
    mechanisms = plain.get("sasl.enabled.mechanisms") if protocol.has_sasl else ()
    return SessionRules(
        max_frame_bytes=plain.get("socket.request.max.bytes"),
        protocol=protocol,
        mechanisms=tuple(mechanisms),
        login_frame_bytes_max=plain.get("sasl.server.max.receive.size"),
        max_session_ms=plain.get("connections.max.reauth.ms"),
        max_session_ms_of={
            mechanism: of(mechanism).get("connections.max.reauth.ms") for mechanism in mechanisms
        },
        failure_delay_ms=plain.get("connection.failed.authentication.delay.ms"),
    )
