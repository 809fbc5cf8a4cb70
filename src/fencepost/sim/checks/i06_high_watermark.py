"""I06: a high watermark, of a node's quorum or of a replica, never falls within one incarnation."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import NodeView, Oracle, Violation
from fencepost.sim.partition_oracle import ReplicaView


class HighWatermark(Check):
    """Compares each view with the one before."""

    kind = "I06"

    def stepped(self, oracle: Oracle, view: NodeView) -> None:
        before = oracle.views.get(view.node_id)
        if before is not None and view.high_watermark < before.high_watermark:
            raise Violation(
                self.kind,
                f"the high watermark of {view.node_id} falls from {before.high_watermark}"
                f" to {view.high_watermark}",
            )

    def replica_stepped(self, oracle: Oracle, view: ReplicaView) -> None:
        before = oracle.partitions.views.get((view.broker_id, view.key))
        if view.key in oracle.partitions.may_lose:
            return  # it may have been of what an unclean election has lost
        if before is not None and view.high_watermark < before.high_watermark:
            raise Violation(
                self.kind,
                f"the high watermark of partition {view.key[1]} on {view.broker_id} falls from"
                f" {before.high_watermark} to {view.high_watermark}",
            )


CHECK = HighWatermark
