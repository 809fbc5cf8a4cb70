"""I06: a node's high watermark never falls within one of its lives."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import NodeView, Truth, Violation


class HighWatermark(Check):
    """Compares each view with the one before."""

    kind = "I06"

    def stepped(self, truth: Truth, view: NodeView) -> None:
        before = truth.views.get(view.node_id)
        if before is not None and view.high_watermark < before.high_watermark:
            raise Violation(
                self.kind,
                f"the high watermark of {view.node_id} falls from {before.high_watermark}"
                f" to {view.high_watermark}",
            )


CHECK = HighWatermark
