"""S57: a controller that leads again goes on where it was, committed or not (KAFKA-13100)."""

from __future__ import annotations

from fencepost.machines.controller.rules import ControllerRules
from fencepost.machines.image import ClusterImage
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class KeepsUncommittedState(ControllerRules):
    """Leads again with the image that it had."""

    def image_for_next_epoch(self, image: ClusterImage) -> ClusterImage:
        return image


ABLATION = Ablation(
    "a controller decides on records that were never committed",
    Rules(controller=KeepsUncommittedState()),
    scenarios=("S57",),
    faults=("partition",),
)
