"""A broker that is to stop does so as soon as the controller has answered."""

from __future__ import annotations

from fencepost.machines.broker.rules import LifecycleRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class StopsAtOnce(LifecycleRules):
    """See the module docstring."""

    def may_stop(self, should_shut_down: bool) -> bool:
        return True


ABLATION = Ablation(
    "a broker is gone before those that lead in its place know of it",
    Rules(lifecycle=StopsAtOnce()),
    scenarios=("S25",),
    is_found_by_search=False,
    in_brokers=True,
)
