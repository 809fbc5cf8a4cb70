"""With too few in sync, who has reached the high watermark joins, however slow (KAFKA-19996)."""

from __future__ import annotations

from fencepost.machines.partition.rules import PartitionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class JoinsFarBehind(PartitionRules):
    """See the module docstring."""

    def must_be_caught_up(self, is_under_min_isr: bool) -> bool:
        return False


ABLATION = Ablation(
    "a slow follower enters the in-sync set and leaves it again, for ever",
    Rules(partition=JoinsFarBehind()),
    scenarios=("S26",),
    is_found_by_search=False,
    in_brokers=True,
)
