"""How a node connects to the others: over brokers' own listener, and over controllers'."""

from __future__ import annotations

from fencepost.broker.config.settings import Settings
from fencepost.broker.security.peer_login import peer_login
from fencepost.client.key_files import key_pair, trusted_certificates
from fencepost.client.security import Security


def peer_security(settings: Settings, listener: str) -> Security:
    """What connections to other nodes' listeners of this name use. The files are read again.

    ConfigError if they cannot be used.

    The keys are those of the listener itself: a node shows its peers the certificate that it shows
    its clients, and trusts the authorities that it lets clients in by.
    """
    config, protocol = settings.for_listener(listener), settings.startup.protocol_of(listener)
    if not protocol.has_tls:
        return peer_login(Security(protocol.name), settings, listener)
    pair = key_pair(config)
    security = Security(
        protocol.name,
        ca_pem=trusted_certificates(config),
        certificate_pem=None if pair is None else pair.certificates,
        key_pem=None if pair is None else pair.key,
        key_password=None if pair is None else pair.password,
        check_hostname=bool(config.get("ssl.endpoint.identification.algorithm")),
        tls_versions=tuple(config.get("ssl.enabled.protocols")),
    )
    return peer_login(security, settings, listener)
