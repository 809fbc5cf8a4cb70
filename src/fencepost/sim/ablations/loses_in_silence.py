"""An unclean election leaves no trace of it in the metadata (before KIP-704)."""

from __future__ import annotations

from fencepost.machines.controller.rules import ControllerRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class LosesInSilence(ControllerRules):
    """See the module docstring."""

    def recovers_after_unclean_election(self) -> bool:
        return False


ABLATION = Ablation(
    "nobody is told that a partition may have lost records",
    Rules(controller=LosesInSilence()),
    scenarios=("S14", "S33"),
    is_found_by_search=False,
    in_brokers=True,
)
