"""S50: a broker has to reach the end of the log to be unfenced (KAFKA-13959)."""

from __future__ import annotations

from fencepost.machines.controller import Controller
from fencepost.machines.image import BrokerImage
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class UnfencesAtTheEnd(Controller):
    """Does not take it for enough that a broker knows of its own registration."""

    def _has_read_enough(self, broker: BrokerImage, metadata_offset: int) -> bool:
        return metadata_offset >= self.image.offset


ABLATION = Ablation(
    "a broker is never unfenced while others write",
    Rules(controller=UnfencesAtTheEnd),
    scenarios=("S50",),
    is_found_by_search=False,
)
