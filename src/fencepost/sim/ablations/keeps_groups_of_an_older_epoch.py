"""A coordinator that another has replaced goes on with what it knew when it leads again."""

from __future__ import annotations

from fencepost.runtime.coordinator.rules import CoordinatorRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class KeepsGroupsOfAnOlderEpoch(CoordinatorRules):
    """Whoever has led between has written nothing."""

    __slots__ = ()

    def goes_on(self, led: int, leads: int) -> bool:
        """In whatever epoch."""
        return True

    def has_ended(self, led: int, lost: int) -> bool:
        """It waits for the next epoch."""
        return False


ABLATION = Ablation(
    "a coordinator tells of offsets as they were before another one took over from it",
    Rules(coordinator=KeepsGroupsOfAnOlderEpoch()),
    scenarios=("S80",),
    is_found_by_search=False,
    in_brokers=True,
)
