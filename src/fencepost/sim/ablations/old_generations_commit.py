"""What a member commits is taken, whatever generation it believes to be in."""

from __future__ import annotations

from fencepost.machines.group.rules import GroupRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class OldGenerationsCommit(GroupRules):
    """See the module docstring."""

    def may_commit(self, generation: int, current: int) -> bool:
        return True


ABLATION = Ablation(
    "a member that has lost a partition commits behind the one that has it now",
    Rules(groups=OldGenerationsCommit()),
    scenarios=("S82",),
    is_found_by_search=False,
    in_brokers=True,
)
