"""The coordinator that aborts a transaction by itself begins two epochs."""

from __future__ import annotations

from fencepost.machines.transaction.epochs import (
    Identity,
    NeedsProducerId,
    ended,
    fenced,
)
from fencepost.machines.transaction.rules import TransactionRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class BumpsTwice(TransactionRules):
    """See the module docstring."""

    def fence(
        self, identity: Identity, server_version: int, fresh: int | None
    ) -> Identity | NeedsProducerId:
        return ended(fenced(identity), fresh)


ABLATION = Ablation(
    "the epochs of a producer run out at once (KAFKA-19367)",
    Rules(transactions=BumpsTwice()),
    scenarios=("S63",),
    in_transactions=True,
)
