"""An offset expires though an open transaction has committed a new one."""

from __future__ import annotations

from fencepost.machines.group.rules import GroupRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class ExpiresWhatIsUndecided(GroupRules):
    """See the module docstring."""

    def may_expire(self, is_undecided: bool) -> bool:
        return True


ABLATION = Ablation(
    "a transaction is committed, and its offset is forgotten (KAFKA-19163)",
    Rules(groups=ExpiresWhatIsUndecided()),
    scenarios=("S74",),
    is_found_by_search=False,
    in_brokers=True,
)
