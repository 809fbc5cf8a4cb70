"""S51: a fetch that must hear of a divergence or a snapshot waits for records (KAFKA-15100)."""

from __future__ import annotations

from fencepost.machines.quorum import FetchBounds, QuorumMachine
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class ParksWhomItSendsElsewhere(QuorumMachine):
    """Has every fetch wait that it has no records for."""

    def _sends_elsewhere(self, bounds: FetchBounds) -> bool:
        return False


ABLATION = Ablation(
    "followers that must cut their log, or load a snapshot, lose half a second with each step",
    Rules(machine=ParksWhomItSendsElsewhere),
    scenarios=("S51",),
    is_found_by_search=False,
)
