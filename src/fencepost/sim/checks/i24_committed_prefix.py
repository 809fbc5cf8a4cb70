"""I24: there is one committed log: what any two nodes hold for committed is a prefix of it."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import NodeView, Oracle, Violation


class CommittedPrefix(Check):
    """Compares what a node newly holds for committed with what other nodes did before.

    `checks.i26_majority` adds to the oracle the batches that no node held for committed before.
    """

    kind = "I24"

    def stepped(self, oracle: Oracle, view: NodeView) -> None:
        before = oracle.views.get(view.node_id)
        known = before.high_watermark if before is not None else 0
        if view.high_watermark <= known:
            return
        disk = oracle.disks[view.node_id]
        at = oracle.committed_position(max(known, disk.start_offset))
        for entry in disk.entries[disk.position(known) :]:
            if entry.next_offset > view.high_watermark or at >= len(oracle.committed):
                return
            if oracle.committed[at] != entry:
                raise Violation(
                    self.kind,
                    f"{view.node_id} holds another batch for committed at {entry.base_offset}"
                    " than others did before",
                )
            at += 1


CHECK = CommittedPrefix
