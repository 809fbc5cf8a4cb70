"""S36: a restarted leader takes its epoch up where it was (KAFKA-10527)."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class LeadsAgainAfterRestart(QuorumRules):
    """Goes by the leader that quorum-state names, also if that is itself."""

    def leads_again_after_restart(self) -> bool:
        return True


ABLATION = Ablation(
    "a restarted leader leads on in the same epoch",
    Rules(quorum=LeadsAgainAfterRestart()),
    scenarios=("S36",),
)
