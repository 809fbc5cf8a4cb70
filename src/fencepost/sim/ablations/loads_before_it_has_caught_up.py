"""A broker that starts makes replicas of whatever metadata it has read by then."""

from __future__ import annotations

from fencepost.machines.broker.rules import LifecycleRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class LoadsEarly(LifecycleRules):
    """See the module docstring."""

    def has_caught_up(self, is_caught_up: bool) -> bool:
        return True


ABLATION = Ablation(
    "a broker that starts works on a cluster of before its registration",
    Rules(lifecycle=LoadsEarly()),
    in_brokers=True,
)
