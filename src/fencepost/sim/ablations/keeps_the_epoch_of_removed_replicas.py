"""A replica is taken away without another leader epoch."""

from __future__ import annotations

from fencepost.machines.controller.rules import ControllerRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class KeepsTheEpoch(ControllerRules):
    """See the module docstring."""

    def fences_removed_replicas(self) -> bool:
        return False


ABLATION = Ablation(
    "a replica that was removed and came back empty is in sync, for what it had before",
    Rules(controller=KeepsTheEpoch()),
    scenarios=("S20",),
    is_found_by_search=False,
    in_brokers=True,
)
