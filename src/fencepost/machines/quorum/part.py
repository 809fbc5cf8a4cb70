"""A part of a quorum machine that decides one matter.

It is given the node, and by name whichever other parts it asks. It sees no more of the machine than
that.
"""

from __future__ import annotations

from fencepost.machines.quorum.component import Component
from fencepost.machines.quorum.node import QuorumNode


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
