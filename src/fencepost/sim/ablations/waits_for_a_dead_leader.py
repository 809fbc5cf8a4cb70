"""S39: a refused connection to the leader is a lost message like any other."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class WaitsForADeadLeader(QuorumRules):
    """Stands for election when the fetch timeout is over, and not before."""

    def may_stand_early(self, has_in_epoch: bool) -> bool:
        return False


ABLATION = Ablation(
    "nobody leads for a fetch timeout after the leader's process has ended",
    Rules(quorum=WaitsForADeadLeader()),
    scenarios=("S39",),
    is_found_by_search=False,
)
