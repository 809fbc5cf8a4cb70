"""Delegation tokens (KIP-48): what programs log in with that shall not have a password."""

from __future__ import annotations

from typing import Final

from fencepost.broker.config.keys.definition import (
    LONG,
    PASSWORD,
    BrokerConfigDef,
    honoured,
)
from fencepost.log.configdef import at_least

KEYS: Final[tuple[BrokerConfigDef, ...]] = (
    honoured(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        3_600_000,
        at_least(1),
        "How often the active controller removes expired tokens.",
    ),
    honoured(
        "delegation.token.expiry.time.ms",
        LONG,
        86_400_000,
        at_least(1),
        "How long a token is good before it has to be renewed.",
    ),
    honoured(
        "delegation.token.max.lifetime.ms",
        LONG,
        604_800_000,
        at_least(1),
        "How long a token is good at most, however often it is renewed.",
    ),
    honoured(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        None,
        "What tokens' secrets are derived from; the same on all nodes. Without it there are none.",
    ),
)
"""See the module."""
