"""S35: everything below a leader's epoch counts as if a record of the epoch stood on top of it.

An off-by-one of KAFKA-12619: the high watermark moves to the start of the epoch before anything of
the epoch is on a majority, which is figure 8 of the Raft paper.
"""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class CommitsAtEpochStart(QuorumRules):
    """Commits the log of earlier epochs by itself."""

    def may_commit(self, offset: int, epoch_start_offset: int) -> bool:
        return offset >= epoch_start_offset


ABLATION = Ablation(
    "a leader commits what earlier leaders left before anything of its own",
    Rules(quorum=CommitsAtEpochStart()),
    scenarios=("S35",),
    is_found_by_search=False,
)
