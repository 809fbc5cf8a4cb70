"""S47: a leader goes on after its removal (KAFKA-17608)."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class LeadsThoughRemoved(QuorumRules):
    """Never steps down."""

    def must_step_down(self, is_voter: bool, voters_are_committed: bool) -> bool:
        return False


ABLATION = Ablation(
    "a removed leader leads on",
    Rules(quorum=LeadsThoughRemoved()),
    scenarios=("S47",),
    is_found_by_search=False,
)
