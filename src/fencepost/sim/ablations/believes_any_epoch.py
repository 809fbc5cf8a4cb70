"""S54: an epoch is a number like another, however large."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumMachine
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class BelievesAnyEpoch(QuorumMachine):
    """Follows whoever names the last epoch there is."""

    def _is_absurd(self, epoch: int) -> bool:
        return False


ABLATION = Ablation(
    "one message with the largest epoch stops all elections for good",
    Rules(machine=BelievesAnyEpoch),
    scenarios=("S54",),
    is_found_by_search=False,
)
