"""I28: a leader never loads a snapshot: what it leads with is in its log."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation


class LeadersAndSnapshots(Check):
    """Looks at the role of a node that loads a snapshot."""

    kind = "I28"

    def snapshot_loaded(self, oracle: Oracle, node_id: int, end_offset: int) -> None:
        view = oracle.views.get(node_id)
        if view is not None and view.role == "leader":
            raise Violation(
                self.kind,
                f"{node_id}, leader of epoch {view.epoch}, loads a snapshot to {end_offset}",
            )


CHECK = LeadersAndSnapshots
