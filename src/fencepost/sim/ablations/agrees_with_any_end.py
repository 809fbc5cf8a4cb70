"""Who asks for an end of a transaction that is over hears that it is done, whatever it came to."""

from __future__ import annotations

from fencepost.machines.transaction.rules import TransactionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class AgreesWithAnyEnd(TransactionRules):
    """See the module docstring."""

    def has_ended_so(self, was_committed: bool, committed: bool) -> bool:
        return True


ABLATION = Ablation(
    "a producer believes that a transaction is committed which has timed out",
    Rules(transactions=AgreesWithAnyEnd()),
    scenarios=("S58", "S72"),
    in_transactions=True,
)
