"""Delegation tokens, which are not offered.

A key that asks for it is refused and not ignored, so that no operator believes a node to be safer
than it is. Kafka's defaults may be written out: they ask for nothing.
"""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    LONG,
    PASSWORD,
    BrokerConfigDef,
    default_only,
)

_TOKENS = "delegation tokens are not offered"

KEYS: Final[tuple[BrokerConfigDef, ...]] = (
    default_only("delegation.token.expiry.check.interval.ms", LONG, 3_600_000, _TOKENS),
    default_only("delegation.token.expiry.time.ms", LONG, 86_400_000, _TOKENS),
    default_only("delegation.token.max.lifetime.ms", LONG, 604_800_000, _TOKENS),
    default_only("delegation.token.secret.key", PASSWORD, None, _TOKENS),
)
"""See the module."""
