"""S39: Raft without pre-votes: every time-out begins a new epoch (KIP-996)."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class ElectionsWithoutPreVotes(QuorumRules):
    """Becomes a candidate at once."""

    def asks_for_pre_votes(self) -> bool:
        return False


ABLATION = Ablation(
    "a node that was cut off comes back with a higher epoch and deposes the leader",
    Rules(quorum=ElectionsWithoutPreVotes()),
    scenarios=("S39",),
    is_found_by_search=False,
)
