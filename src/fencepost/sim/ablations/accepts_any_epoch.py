"""S54: an epoch is a number like another, however large."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class AcceptsAnyEpoch(QuorumRules):
    """Follows whoever names the last epoch there is."""

    def epoch_out_of_range(self, epoch: int, highest_known: int, allowance: int) -> bool:
        return False


ABLATION = Ablation(
    "one message with the largest epoch stops all elections for good",
    Rules(quorum=AcceptsAnyEpoch()),
    scenarios=("S54",),
    is_found_by_search=False,
)
