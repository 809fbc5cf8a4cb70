"""S50: a broker has to reach the end of the log to be unfenced (KAFKA-13959)."""

from __future__ import annotations

from fencepost.machines.controller.rules import ControllerRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class UnfencesAtTheEnd(ControllerRules):
    """Does not take it for enough that a broker knows of its own registration."""

    def has_read_enough(self, broker_epoch: int, metadata_offset: int, last_offset: int) -> bool:
        return metadata_offset >= last_offset


ABLATION = Ablation(
    "a broker is never unfenced while others write",
    Rules(controller=UnfencesAtTheEnd()),
    scenarios=("S50",),
    is_found_by_search=False,
)
