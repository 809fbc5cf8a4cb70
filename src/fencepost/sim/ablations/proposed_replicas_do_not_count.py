"""A leader shows what a replica lacks that it has just asked to have in sync (KIP-497)."""

from __future__ import annotations

from fencepost.machines.partition.rules import PartitionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class ProposedDoNotCount(PartitionRules):
    """See the module docstring."""

    def counted_isr(self, isr: frozenset[int], proposed: frozenset[int]) -> frozenset[int]:
        return isr


ABLATION = Ablation(
    "a replica that is about to be in sync is elected without what was acknowledged meanwhile",
    Rules(partition=ProposedDoNotCount()),
    scenarios=("S18",),
    is_found_by_search=False,
    in_brokers=True,
)
