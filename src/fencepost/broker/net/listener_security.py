"""How the connections of one listener are secured."""

from __future__ import annotations

from msgspec import Struct

from fencepost.machines.session import SessionRules


class ListenerSecurity(Struct, frozen=True):
    """What all connections of a listener have in common."""

    name: str
    """The listener's."""
    rules: SessionRules
    """What its sessions go by."""
