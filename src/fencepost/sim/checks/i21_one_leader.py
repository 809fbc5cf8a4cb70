"""I21: an epoch has at most one leader, in all of its time."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import NodeView, Oracle, Violation


class OneLeader(Check):
    """Remembers who led which epoch."""

    kind = "I21"

    def __init__(self) -> None:
        self._leaders: dict[int, int] = {}

    def stepped(self, oracle: Oracle, view: NodeView) -> None:
        if view.role != "leader":
            return
        other = self._leaders.setdefault(view.epoch, view.node_id)
        if other != view.node_id:
            raise Violation(self.kind, f"{other} and {view.node_id} both lead epoch {view.epoch}")


CHECK = OneLeader
