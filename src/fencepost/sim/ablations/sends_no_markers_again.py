"""A coordinator that loads an end which is decided sends no markers."""

from __future__ import annotations

from fencepost.machines.transaction.model import Transaction
from fencepost.machines.transaction.rules import TransactionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class SendsNoMarkersAgain(TransactionRules):
    """See the module docstring."""

    def is_resent(self, transaction: Transaction) -> bool:
        return False


ABLATION = Ablation(
    "a transaction whose coordinator fails is never over",
    Rules(transactions=SendsNoMarkersAgain()),
    scenarios=("S61", "S78"),
    in_transactions=True,
)
