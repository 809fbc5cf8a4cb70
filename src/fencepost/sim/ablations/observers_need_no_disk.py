"""S49: only voters flush before they fetch (KAFKA-17332)."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumMachine
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class ObserversNeedNoDisk(QuorumMachine):
    """Tells the leader of records that are in memory only."""

    def _flushes_before_fetch(self) -> bool:
        return self.is_voter


ABLATION = Ablation(
    "an observer that becomes a voter counts for what it has not flushed",
    Rules(machine=ObserversNeedNoDisk),
    scenarios=("S49",),
    is_found_by_search=False,
)
