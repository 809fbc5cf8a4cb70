"""S37: votes and epochs are written at the end of a step, after the answers that tell of them."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class AnswersBeforeItPersists(QuorumRules):
    """Puts `WriteState` last."""

    def writes_state_before_telling(self) -> bool:
        return False


ABLATION = Ablation(
    "a vote is told before it is on disk",
    Rules(quorum=AnswersBeforeItPersists()),
    scenarios=("S37",),
)
