"""S47: a leader counts itself towards every majority, voter or not (KAFKA-16530)."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class CountsItselfForever(QuorumRules):
    """Is one of those that a majority is made of, also after its removal."""

    def counts_itself(self, is_voter: bool) -> bool:
        return True


ABLATION = Ablation(
    "a leader that is being removed commits with its own disk",
    Rules(quorum=CountsItselfForever()),
    scenarios=("S47",),
    is_found_by_search=False,
)
