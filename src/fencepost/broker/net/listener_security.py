"""How the connections of one listener are secured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from fencepost.machines.session import SessionRules

if TYPE_CHECKING:
    from fencepost.machines.sasl import SaslServer


class ListenerSecurity(Struct, frozen=True):
    """What all connections of a listener have in common."""

    name: str
    """The listener's."""
    rules: SessionRules
    """What its sessions go by."""
    mechanisms: Mapping[str, Callable[[], SaslServer]] = field(default_factory=dict)
    """What begins a login, by the name of the mechanism; one for
    each that `rules` has."""
