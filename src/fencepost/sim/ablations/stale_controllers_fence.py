"""A controller that is out of date takes itself for newer than a leader (KAFKA-14154)."""

from __future__ import annotations

from fencepost.machines.controller.rules import ControllerRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class StaleControllersFence(ControllerRules):
    """See the module docstring."""

    def is_ahead(self, asked: tuple[int, int], ours: tuple[int, int]) -> bool:
        return False


ABLATION = Ablation(
    "a leader believes that it is fenced, and never has anybody in sync again",
    Rules(controller=StaleControllersFence()),
    scenarios=("S16",),
    is_found_by_search=False,
    in_brokers=True,
)
