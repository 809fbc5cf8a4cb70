"""S49: only voters flush before they fetch (KAFKA-17332)."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class ObserversNeedNoDisk(QuorumRules):
    """Tells the leader of records that are in memory only."""

    def flushes_before_fetch(self, is_voter: bool, can_become_voter: bool) -> bool:
        return is_voter


ABLATION = Ablation(
    "an observer that becomes a voter counts for what it has not flushed",
    Rules(quorum=ObserversNeedNoDisk()),
    scenarios=("S49",),
    is_found_by_search=False,
)
