"""A new leader tells consumers where its log ends before it knows (KIP-207)."""

from __future__ import annotations

from fencepost.machines.partition.rules import PartitionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class TellsAnEndOfBefore(PartitionRules):
    """See the module docstring."""

    def knows_latest_offset(self, high_watermark: int, epoch_start_offset: int) -> bool:
        return True


ABLATION = Ablation(
    "a consumer is told that a partition ends before what it has read",
    Rules(partition=TellsAnEndOfBefore()),
    scenarios=("S22",),
    is_found_by_search=False,
    in_brokers=True,
)
