"""I26: committed means durable, on the disks of a majority of the voters.

The first node that holds a batch for committed is the leader that counted its followers' fetches;
a majority of the voters that it goes by must have the batch where no crash takes it. A voter is a
node with its directory: the same id on another disk does not count. A voter that cut the batch off
because of damage counts as long as its acknowledged log end, durably written, keeps it from voting
for a candidate that lacks the batch: the leader may count what that voter fetched before.
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import NodeView, Oracle, Violation


class Majority(Check):
    """Counts holders, and takes what is newly committed into the oracle."""

    kind = "I26"

    def stepped(self, oracle: Oracle, view: NodeView) -> None:
        if view.high_watermark <= oracle.committed_offset:
            return
        disk = oracle.disks[view.node_id]
        for entry in disk.entries[disk.position(oracle.committed_offset) :]:
            if entry.next_offset > view.high_watermark:
                return
            holders = oracle.holders(entry, view.voters)
            if len(holders) <= len(view.voters) // 2:
                raise Violation(
                    self.kind,
                    f"{view.node_id} holds offset {entry.base_offset} for committed, which only"
                    f" {holders} of {[id_ for id_, _ in view.voters]} have on disk",
                )
            oracle.committed.append(entry)


CHECK = Majority
