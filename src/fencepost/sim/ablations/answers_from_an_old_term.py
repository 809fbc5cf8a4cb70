"""A coordinator that was replaced answers repetitions from memory."""

from __future__ import annotations

from fencepost.machines.transaction.rules import TransactionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class AnswersFromAnOldTerm(TransactionRules):
    """What it knows needs no writing."""

    __slots__ = ()

    def writes_again(self) -> bool:
        """What is there is there."""
        return False


ABLATION = Ablation(
    "a coordinator that was replaced unawares says that the next transaction is committed",
    Rules(transactions=AnswersFromAnOldTerm()),
    scenarios=("S79",),
    faults=("partition",),
    in_brokers=True,
)
