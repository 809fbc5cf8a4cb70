"""A leader goes by the in-sync set that it asks for, before the controller has granted it."""

from __future__ import annotations

from fencepost.machines.partition.rules import PartitionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class GoesByWhatItAsksFor(PartitionRules):
    """See the module docstring."""

    def counted_isr(self, isr: frozenset[int], proposed: frozenset[int]) -> frozenset[int]:
        return proposed


ABLATION = Ablation(
    "a leader that was deposed while it was paused acknowledges what only it has",
    Rules(partition=GoesByWhatItAsksFor()),
    scenarios=("S23",),
    is_found_by_search=False,
    in_brokers=True,
)
