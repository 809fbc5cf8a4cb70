"""A broker asks to be unfenced as soon as it is registered."""

from __future__ import annotations

from fencepost.machines.broker.rules import LifecycleRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class AsksAtOnce(LifecycleRules):
    """See the module docstring."""

    def wants_to_be_fenced(self, is_ready: bool) -> bool:
        return False


ABLATION = Ablation(
    "a broker whose logs are not loaded is elected leader",
    Rules(lifecycle=AsksAtOnce()),
    scenarios=("S27",),
    in_brokers=True,
)
