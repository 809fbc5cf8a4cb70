"""S57: records that could not be written stay in the controller's state (KAFKA-13100)."""

from __future__ import annotations

from fencepost.machines.controller.rules import ControllerRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class DoesNotRevert(ControllerRules):
    """Tells its callers, and goes on as if they had got what they asked for."""

    def reverts_failed_writes(self) -> bool:
        return False


ABLATION = Ablation(
    "a failed write leaves the controller ahead of the log",
    Rules(controller=DoesNotRevert()),
    scenarios=("S57",),
    is_found_by_search=False,
)
