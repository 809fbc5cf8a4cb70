"""What a quorum machine is made of.

A `Component` lives as long as its machine and knows others of the same machine. Whoever copies a
machine (`fencepost.sim.explore.copying`) copies its components, each once, and whatever else they
hold. A component that decides is a `Part` (`part.py`).
"""

from __future__ import annotations


class Component:
    """An object that a machine is composed of."""
