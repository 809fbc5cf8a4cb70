"""TLS, which is not offered.

A key that asks for it is refused and not ignored, so that no operator believes a node to be safer
than it is. Kafka's defaults may be written out: they ask for nothing.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    BOOLEAN,
    CLASS,
    LIST,
    PASSWORD,
    PER_BROKER,
    STRING,
    BrokerConfigDef,
    default_only,
)

_TLS = "TLS is not offered"

KEYS: Final[tuple[BrokerConfigDef, ...]] = (
    default_only("ssl.allow.dn.changes", BOOLEAN, False, _TLS),
    default_only("ssl.allow.san.changes", BOOLEAN, False, _TLS),
    default_only("ssl.cipher.suites", LIST, (), _TLS, PER_BROKER),
    default_only("ssl.client.auth", STRING, "none", _TLS, PER_BROKER),
    default_only("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), _TLS, PER_BROKER),
    default_only("ssl.endpoint.identification.algorithm", STRING, "https", _TLS, PER_BROKER),
    default_only("ssl.engine.factory.class", CLASS, None, _TLS, PER_BROKER),
    default_only("ssl.key.password", PASSWORD, None, _TLS, PER_BROKER),
    default_only("ssl.keymanager.algorithm", STRING, "SunX509", _TLS, PER_BROKER),
    default_only("ssl.keystore.certificate.chain", PASSWORD, None, _TLS, PER_BROKER),
    default_only("ssl.keystore.key", PASSWORD, None, _TLS, PER_BROKER),
    default_only("ssl.keystore.location", STRING, None, _TLS, PER_BROKER),
    default_only("ssl.keystore.password", PASSWORD, None, _TLS, PER_BROKER),
    default_only("ssl.keystore.type", STRING, "JKS", _TLS, PER_BROKER),
    default_only("ssl.principal.mapping.rules", STRING, "DEFAULT", _TLS),
    default_only("ssl.protocol", STRING, "TLSv1.3", _TLS, PER_BROKER),
    default_only("ssl.provider", STRING, None, _TLS, PER_BROKER),
    default_only("ssl.secure.random.implementation", STRING, None, _TLS, PER_BROKER),
    default_only("ssl.trustmanager.algorithm", STRING, "PKIX", _TLS, PER_BROKER),
    default_only("ssl.truststore.certificates", PASSWORD, None, _TLS, PER_BROKER),
    default_only("ssl.truststore.location", STRING, None, _TLS, PER_BROKER),
    default_only("ssl.truststore.password", PASSWORD, None, _TLS, PER_BROKER),
    default_only("ssl.truststore.type", STRING, "JKS", _TLS, PER_BROKER),
)
"""See the module."""
