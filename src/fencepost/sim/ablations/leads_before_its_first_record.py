"""S44: a controller is active as soon as its node leads (KAFKA-12958, KAFKA-15345)."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class LeadsBeforeItsFirstRecord(QuorumRules):
    """Takes an election for all that it needs to know what was committed before it."""

    def is_active(self, high_watermark: int, epoch_start_offset: int) -> bool:
        return True


ABLATION = Ablation(
    "a controller decides on an image that lacks what earlier leaders committed",
    Rules(quorum=LeadsBeforeItsFirstRecord()),
    scenarios=("S44",),
)
