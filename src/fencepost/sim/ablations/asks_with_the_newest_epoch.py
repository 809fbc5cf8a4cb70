"""A replica is asked for under the broker epoch it has when the request leaves (KAFKA-15221)."""

from __future__ import annotations

from fencepost.machines.partition.rules import PartitionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class AsksWithTheNewest(PartitionRules):
    """See the module docstring."""

    def epoch_to_ask_with(self, proposed: int, fetched_since: int) -> int:
        return fetched_since


ABLATION = Ablation(
    "a broker that has lost its disk is in sync, for what it had before",
    Rules(partition=AsksWithTheNewest()),
    scenarios=("S11",),
    is_found_by_search=False,
    in_brokers=True,
)
