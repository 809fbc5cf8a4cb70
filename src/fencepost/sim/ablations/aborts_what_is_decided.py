"""A transaction times out while its markers are on their way."""

from __future__ import annotations

from fencepost.machines.transaction.model import Transaction
from fencepost.machines.transaction.rules import TransactionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules
from fencepost.wire.records.transaction import TransactionState


class AbortsWhatIsDecided(TransactionRules):
    """See the module docstring."""

    def may_time_out(self, transaction: Transaction) -> bool:
        return transaction.is_ending or transaction.state is TransactionState.ONGOING


ABLATION = Ablation(
    "what a producer was told is committed is aborted in some partitions",
    Rules(transactions=AbortsWhatIsDecided()),
    scenarios=("S72",),
    in_transactions=True,
)
