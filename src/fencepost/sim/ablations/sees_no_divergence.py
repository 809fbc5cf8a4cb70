"""S40: a leader takes every reader's log for the beginning of its own."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class SeesNoDivergence(QuorumRules):
    """Never tells anybody where the logs part."""

    def reports_divergence(self) -> bool:
        return False


ABLATION = Ablation(
    "followers keep what they have from a deposed leader",
    Rules(quorum=SeesNoDivergence()),
    scenarios=("S40",),
)
