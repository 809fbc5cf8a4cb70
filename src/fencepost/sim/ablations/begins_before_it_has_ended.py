"""A transaction begins, or ends another way, while the markers of the last are written."""

from __future__ import annotations

from fencepost.machines.transaction.model import Transaction
from fencepost.machines.transaction.rules import TransactionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class BeginsBeforeItHasEnded(TransactionRules):
    """See the module docstring."""

    def must_wait(self, transaction: Transaction) -> bool:
        return False


ABLATION = Ablation(
    "a transaction is decided twice",
    Rules(transactions=BeginsBeforeItHasEnded()),
    scenarios=("S67",),
    in_transactions=True,
)
