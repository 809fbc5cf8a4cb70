"""A leader takes it that what the controller refuses was never granted (KIP-497)."""

from __future__ import annotations

from fencepost.machines.partition.rules import PartitionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class ForgetsRefused(PartitionRules):
    """See the module docstring."""

    def is_undone(self, error: int) -> bool:
        return True


ABLATION = Ablation(
    "an in-sync set that was granted, in an answer that was lost, does not count",
    Rules(partition=ForgetsRefused()),
    scenarios=("S17",),
    is_found_by_search=False,
    in_brokers=True,
)
