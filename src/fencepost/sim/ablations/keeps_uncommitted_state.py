"""S57: a controller that leads again goes on where it was, committed or not (KAFKA-13100)."""

from __future__ import annotations

from fencepost.machines.controller import Controller
from fencepost.runtime.controller_host import ControllerHost
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class KeepsUncommittedState(ControllerHost):
    """Keeps the controller of its first epoch."""

    _kept: Controller | None = None

    def _fresh_controller(self) -> Controller:
        if self._kept is None:
            self._kept = super()._fresh_controller()
        return self._kept


ABLATION = Ablation(
    "a controller decides on records that were never committed",
    Rules(controller_host=KeepsUncommittedState),
    scenarios=("S57",),
    faults=("partition",),
)
