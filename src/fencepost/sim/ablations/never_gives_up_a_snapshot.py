"""S41: a follower goes on with the snapshot it began, whoever leads, and whether it is there."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class NeverGivesUpASnapshot(QuorumRules):
    """Asks for the piece it wants until it gets it."""

    def goes_back_to_fetch(self) -> bool:
        return False


ABLATION = Ablation(
    "a follower asks for ever for a snapshot that nobody has any more",
    Rules(quorum=NeverGivesUpASnapshot()),
    scenarios=("S41",),
    is_found_by_search=False,
)
