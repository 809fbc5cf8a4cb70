"""A leader counts what a follower has that goes by an older leader epoch (KIP-320, first try)."""

from __future__ import annotations

from fencepost.machines.partition.rules import PartitionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class CountsOlderEpochs(PartitionRules):
    """See the module docstring."""

    def is_of_older_epoch(self, asked: int, leader_epoch: int) -> bool:
        return False


ABLATION = Ablation(
    "a follower in sync cuts what its leader has shown, when it hears of an epoch in between",
    Rules(partition=CountsOlderEpochs()),
    scenarios=("S07",),
    is_found_by_search=False,
    in_brokers=True,
)
