"""`Verifying`: has coordinators of transactions asked, by what is made when the first is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.broker.node.on_demand import OnDemand
from fencepost.runtime.claims import Claim, OnOutcome

if TYPE_CHECKING:
    from fencepost.broker.node.verification import Verification


class Verifying:
    """`runtime.claims.AsksCoordinators` of a broker."""

    def __init__(self, verification: OnDemand[Verification]) -> None:
        self._verification = verification

    def is_asking(self, claim: Claim) -> bool:
        """Whether an earlier claim of the same producer waits for its answer."""
        made = self._verification.made
        return made is not None and made.verifier.is_asking(claim)

    def ask(self, claim: Claim, on_outcome: OnOutcome) -> None:
        """Ask the coordinator."""
        self._verification.get().verifier.ask(claim, on_outcome)
