"""A leader that hears of another in-sync set by metadata lets everybody wait on (KAFKA-14334)."""

from __future__ import annotations

from fencepost.machines.partition.rules import PartitionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class WaitsForWhoIsOutOfSync(PartitionRules):
    """See the module docstring."""

    def advances_by_metadata(self) -> bool:
        return False


ABLATION = Ablation(
    "a producer waits for a broker that is fenced, and sends its batch again",
    Rules(partition=WaitsForWhoIsOutOfSync()),
    scenarios=("S34",),
    is_found_by_search=False,
    in_brokers=True,
)
