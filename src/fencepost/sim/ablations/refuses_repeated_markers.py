"""A marker of KIP-890 that comes again is refused."""

from __future__ import annotations

from fencepost.machines.partition.rules import PartitionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class RefusesRepeatedMarkers(PartitionRules):
    """See the module docstring."""

    def is_late_marker(self, is_open: bool) -> bool:
        return True


ABLATION = Ablation(
    "a transaction whose marker is sent again never completes (KAFKA-19999)",
    Rules(partition=RefusesRepeatedMarkers()),
    scenarios=("S61",),
    in_transactions=True,
)
