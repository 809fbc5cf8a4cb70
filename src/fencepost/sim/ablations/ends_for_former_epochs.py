"""Who had the epoch before may end the transaction that is ongoing."""

from __future__ import annotations

from fencepost.machines.transaction.epochs import Claim
from fencepost.machines.transaction.rules import TransactionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class EndsForFormerEpochs(TransactionRules):
    """See the module docstring."""

    def may_end(self, claim: Claim) -> bool:
        return claim in (Claim.CURRENT, Claim.RETRY)


ABLATION = Ablation(
    "the end of the last transaction comes late, and ends the next one",
    Rules(transactions=EndsForFormerEpochs()),
    scenarios=("S58", "S64"),
    in_transactions=True,
)
