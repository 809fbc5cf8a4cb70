"""A producer goes on after a batch of which it does not know whether it is written."""

from __future__ import annotations

from typing import Any

from fencepost.client.protocol.transaction_manager import TransactionManager
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def forgets(self: TransactionManager, error: Any) -> None:
    """The batch was not delivered, and the transaction is as before."""


ABLATION = Ablation(
    "a transaction is committed, and perhaps not all of it is written (KAFKA-14034)",
    Rules(patches=((TransactionManager, "on_produce_failure", forgets),)),
    scenarios=("S77",),
    in_transactions=True,
)
