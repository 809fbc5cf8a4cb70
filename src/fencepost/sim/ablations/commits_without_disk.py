"""A leader counts its own log before it is flushed."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class CommitsWithoutDisk(QuorumRules):
    """Takes the page cache for the disk."""

    def counts_as_durable(self, durable_end_offset: int, end_offset: int) -> int:
        return end_offset


ABLATION = Ablation(
    "what the leader has only in memory counts towards a majority",
    Rules(quorum=CommitsWithoutDisk()),
)
