"""A follower that has reached the high watermark is in sync (KAFKA-7128)."""

from __future__ import annotations

from fencepost.machines.partition.rules import PartitionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class JoinsAtTheHighWatermark(PartitionRules):
    """See the module docstring."""

    def needed_to_join(self, high_watermark: int, epoch_start_offset: int) -> int:
        return high_watermark

    def must_be_caught_up(self, is_under_min_isr: bool) -> bool:
        return False


ABLATION = Ablation(
    "a replica without what an earlier leader acknowledged is elected",
    Rules(partition=JoinsAtTheHighWatermark()),
    scenarios=("S09",),
    is_found_by_search=False,
    in_brokers=True,
)
