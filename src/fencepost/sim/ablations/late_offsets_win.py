"""An offset of a transaction counts from its marker on, whatever was committed since."""

from __future__ import annotations

from fencepost.machines.group.rules import GroupRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class LateOffsetsWin(GroupRules):
    """See the module docstring."""

    def counts(self, written_at: int, committed_at: int) -> bool:
        return True


ABLATION = Ablation(
    "a group goes back to an offset that was committed before",
    Rules(groups=LateOffsetsWin()),
    scenarios=("S73",),
    in_transactions=True,
)
