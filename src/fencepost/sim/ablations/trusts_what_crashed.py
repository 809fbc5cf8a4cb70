"""S12: a broker that was not closed in order counts as if it had lost nothing (KIP-966)."""

from __future__ import annotations

from fencepost.machines.controller.rules import ControllerRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class TrustsWhatCrashed(ControllerRules):
    """Does not look at what the log directories say of how they were closed."""

    def was_closed_in_order(self, broker_epoch: int, previous_broker_epoch: int) -> bool:
        return True


ABLATION = Ablation(
    "the last replica in sync leads again after a power cut, before those that lack nothing",
    Rules(controller=TrustsWhatCrashed()),
    scenarios=("S12",),
    is_found_by_search=False,
    in_brokers=True,
)
