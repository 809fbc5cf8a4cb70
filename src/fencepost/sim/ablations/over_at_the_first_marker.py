"""A transaction is over when its first marker is written."""

from __future__ import annotations

from fencepost.machines.transaction.model import Transaction
from fencepost.machines.transaction.rules import TransactionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class OverAtTheFirstMarker(TransactionRules):
    """See the module docstring."""

    def is_over(self, transaction: Transaction) -> bool:
        return True


ABLATION = Ablation(
    "a coordinator that fails then leaves partitions without an end",
    Rules(transactions=OverAtTheFirstMarker()),
    scenarios=("S61",),
    faults=("kill", "pause", "partition"),
    in_transactions=True,
)
