"""A reassignment ends as soon as one is in sync that stays, whoever is still to come."""

from __future__ import annotations

from fencepost.machines.controller.rules import ControllerRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class EndsMovesEarly(ControllerRules):
    """See the module docstring."""

    def may_end_move(
        self, adding: frozenset[int], before: frozenset[int], after: frozenset[int], min_isr: int
    ) -> bool:
        return bool(after)


ABLATION = Ablation(
    "a reassignment takes away who is in sync before somebody else is",
    Rules(controller=EndsMovesEarly()),
    scenarios=("S28",),
    is_found_by_search=False,
    in_brokers=True,
)
