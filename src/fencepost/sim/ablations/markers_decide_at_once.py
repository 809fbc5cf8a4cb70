"""A transaction is decided for readers as soon as its marker is in the leader's log."""

from __future__ import annotations

from fencepost.machines.partition.rules import PartitionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class MarkersDecideAtOnce(PartitionRules):
    """See the module docstring."""

    def decided_from(self, high_watermark: int, end_offset: int) -> int:
        return end_offset


ABLATION = Ablation(
    "who reads committed data is given what only a marker that may be lost has decided",
    Rules(partition=MarkersDecideAtOnce()),
    scenarios=("S65",),
    in_transactions=True,
)
