"""What a node's authorizer is told by the configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fencepost.broker.config.keys.authorization import (
    ALLOW_EVERYONE_KEY,
    AUTHORIZER_KEY,
    OF_THE_AUTHORIZER,
    STANDARD_AUTHORIZER,
    SUPER_USERS_KEY,
    super_users,
)
from fencepost.log.configdef import ConfigError

if TYPE_CHECKING:
    from fencepost.machines.authorizer import Policy


def check_authorizer(get: Callable[[str], Any]) -> None:
    """Whether what is said to an authorizer has one; `get` gives typed values. ConfigError."""
    if get(AUTHORIZER_KEY):
        return
    for key in OF_THE_AUTHORIZER:
        if get(key):
            raise ConfigError(key, get(key), f"it needs {AUTHORIZER_KEY}={STANDARD_AUTHORIZER}")


def authorizer_policy(get: Callable[[str], Any]) -> Policy | None:
    """Super users, and what becomes of resources without ACLs; None without an authorizer."""
    if not get(AUTHORIZER_KEY):
        return None
    # What a node without an authorizer never needs, its start can do without.
    from fencepost.machines.authorizer import Policy

    return Policy(super_users(get(SUPER_USERS_KEY)), bool(get(ALLOW_EVERYONE_KEY)))
