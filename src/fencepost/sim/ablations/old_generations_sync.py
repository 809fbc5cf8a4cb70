"""A member hears what a later generation is assigned, and takes it for its own."""

from __future__ import annotations

from fencepost.machines.group.rules import GroupRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class OldGenerationsSync(GroupRules):
    """See the module docstring."""

    def may_sync(self, generation: int, current: int) -> bool:
        return True


ABLATION = Ablation(
    "two members read one partition, and each believes that its generation gave it to it",
    Rules(groups=OldGenerationsSync()),
    scenarios=("S84",),
    is_found_by_search=False,
    in_brokers=True,
)
