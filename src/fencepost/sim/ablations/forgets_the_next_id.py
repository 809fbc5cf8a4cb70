"""The record of an end does not have the producer's next id."""

from __future__ import annotations

from fencepost.machines.transaction.epochs import NO_PRODUCER_ID
from fencepost.machines.transaction.model import Transaction
from fencepost.machines.transaction.rules import TransactionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class ForgetsTheNextId(TransactionRules):
    """See the module docstring."""

    def written(self, transaction: Transaction) -> Transaction:
        identity = transaction.identity._replace(
            next_producer_id=NO_PRODUCER_ID, prev_producer_id=NO_PRODUCER_ID
        )
        return transaction._replace(identity=identity)


ABLATION = Ablation(
    "a producer is told an id that the next coordinator does not know (KAFKA-20310)",
    Rules(transactions=ForgetsTheNextId()),
    scenarios=("S63",),
    is_found_by_search=False,
    in_transactions=True,
)
