"""A reassignment ends when all that come are in sync, however few are left in sync by it."""

from __future__ import annotations

from fencepost.machines.controller.rules import ControllerRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class EndsMovesBelowTheMinimum(ControllerRules):
    """See the module docstring."""

    def may_end_move(
        self, adding: frozenset[int], before: frozenset[int], after: frozenset[int], min_isr: int
    ) -> bool:
        return bool(after) and adding <= after


ABLATION = Ablation(
    "a reassignment leaves fewer in sync than were asked for, and writes are refused",
    Rules(controller=EndsMovesBelowTheMinimum()),
    scenarios=("S28",),
    is_found_by_search=False,
    in_brokers=True,
)
