"""An offset counts as soon as it is written in a transaction."""

from __future__ import annotations

from fencepost.machines.group.rules import GroupRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class UndecidedOffsetsCount(GroupRules):
    """See the module docstring."""

    def is_visible(self, is_decided: bool) -> bool:
        return True


ABLATION = Ablation(
    "a group has read to an offset whose transaction was aborted",
    Rules(groups=UndecidedOffsetsCount()),
    scenarios=("S73", "S75"),
    in_transactions=True,
)
