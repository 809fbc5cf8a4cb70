"""S57: records that could not be written stay in the controller's state (KAFKA-13100)."""

from __future__ import annotations

from fencepost.runtime.controller_host import ControllerHost
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class DoesNotRevert(ControllerHost):
    """Tells its callers, and goes on as if they had got what they asked for."""

    def _revert_state(self) -> None:
        pass


ABLATION = Ablation(
    "a failed write leaves the controller ahead of the log",
    Rules(controller_host=DoesNotRevert),
    scenarios=("S57",),
    is_found_by_search=False,
)
