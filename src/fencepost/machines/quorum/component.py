"""What a quorum machine is made of.

A `Component` lives as long as its machine and knows others of the same machine. Whoever copies a
machine (`fencepost.sim.explore.copying`) copies its components, each once, and whatever else they
hold. `Part` is a component that decides: it is given the node, and by name whichever other parts it
asks. It sees no more of the machine than that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.machines.quorum.node import QuorumNode


class Component:
    """An object that a machine is composed of."""


class Part(Component):
    """Decides one matter. `_log`, `_outbox`, `_requests` and `_timers` are the node's."""

    def __init__(self, node: QuorumNode) -> None:
        self._node = node
        self._log = node.log
        self._outbox = node.outbox
        self._requests = node.requests
        self._timers = node.timers
        self._config = node.config
        self._rules = node.rules
