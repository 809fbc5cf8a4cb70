"""What a quorum machine is made of.

A `Component` lives as long as its machine and knows others of the same machine. A component that
decides is a `Part` (`part.py`).
"""

from __future__ import annotations

from typing import ClassVar


class Component:
    """An object that a machine is composed of."""

    NOT_STATE: ClassVar = frozenset(("_config", "_rules", "config", "rules"))
    """The fields that say nothing of a machine's future; see `machines.canonical`."""
