"""What a broker had fetched before it lost its disk counts for the one that is there now."""

from __future__ import annotations

from fencepost.machines.partition.rules import PartitionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class FormerIncarnationsVouch(PartitionRules):
    """See the module docstring."""

    def is_former_incarnation(self, broker_epoch: int, newest: int) -> bool:
        return False

    def vouches(self, fetched: int, registered: int) -> int:
        return registered


ABLATION = Ablation(
    "a broker with an empty disk is in sync, and elected (KIP-903, KAFKA-15221)",
    Rules(partition=FormerIncarnationsVouch()),
    scenarios=("S10",),
    is_found_by_search=False,
    in_brokers=True,
)
