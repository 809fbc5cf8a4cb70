"""Who had the epoch before may add partitions."""

from __future__ import annotations

from fencepost.machines.transaction.epochs import Claim
from fencepost.machines.transaction.rules import TransactionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class AddsForFormerEpochs(TransactionRules):
    """See the module docstring."""

    def may_add(self, claim: Claim) -> bool:
        return claim in (Claim.CURRENT, Claim.RETRY)


ABLATION = Ablation(
    "a partition of the last transaction is part of the next one",
    Rules(transactions=AddsForFormerEpochs()),
    scenarios=("S60", "S64", "S78"),
    in_transactions=True,
)
