"""The first batch of a transaction is appended whatever its coordinator knows of it."""

from __future__ import annotations

from fencepost.machines.partition.rules import PartitionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class AppendsUnverified(PartitionRules):
    """See the module docstring."""

    def asks_coordinator(self, is_open: bool) -> bool:
        return False

    def is_verified(self, ticket: int, present: int) -> bool:
        return True


ABLATION = Ablation(
    "a batch that comes late begins a transaction that nobody ends",
    Rules(partition=AppendsUnverified()),
    scenarios=("S59",),
    in_transactions=True,
)
