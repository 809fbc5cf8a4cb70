"""A leader counts whom it has asked for towards min.insync.replicas (before KIP-966)."""

from __future__ import annotations

from fencepost.machines.partition.rules import PartitionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class AcknowledgesWithProposed(PartitionRules):
    """See the module docstring."""

    def isr_to_acknowledge_with(
        self, isr: frozenset[int], proposed: frozenset[int]
    ) -> frozenset[int]:
        return isr | proposed


ABLATION = Ablation(
    "a replica that is eligible, of which the leader does not know, is elected without records",
    Rules(partition=AcknowledgesWithProposed()),
    scenarios=("S19",),
    is_found_by_search=False,
    in_brokers=True,
)
