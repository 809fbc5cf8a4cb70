"""Who clients are and what they may do: no authorizer is offered.

A key that asks for it is refused and not ignored, so that no operator believes a node to be safer
than it is. Kafka's defaults may be written out: they ask for nothing.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    CLASS,
    PER_BROKER,
    STRING,
    BrokerConfigDef,
    default_only,
)

_AUTHORIZER = "no authorizer is offered"
_SECURITY = "no security protocol but PLAINTEXT is offered"

KEYS: Final[tuple[BrokerConfigDef, ...]] = (
    default_only("authorizer.class.name", STRING, "", _AUTHORIZER),
    default_only(
        "principal.builder.class",
        CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        _SECURITY,
        PER_BROKER,
    ),
    default_only("security.providers", STRING, None, _SECURITY),
)
"""See the module."""
