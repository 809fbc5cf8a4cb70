"""A broker that the controller does not know goes on asking under its old broker epoch."""

from __future__ import annotations

from fencepost.machines.broker.rules import LifecycleRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class StaysUnregistered(LifecycleRules):
    """See the module docstring."""

    def registers_again(self) -> bool:
        return False


ABLATION = Ablation(
    "a broker that was unregistered by mistake is out of the cluster until it is restarted",
    Rules(lifecycle=StaysUnregistered()),
    scenarios=("S27",),
    is_found_by_search=False,
    in_brokers=True,
)
