"""`VerificationOnDemand`: what has coordinators of transactions asked, made when the first is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.broker.node.on_demand import OnDemand
from fencepost.runtime.claims import Claim, OnOutcome

if TYPE_CHECKING:
    from fencepost.broker.node.verification import Verification  # noqa: F401 - in a string


class VerificationOnDemand(OnDemand["Verification"]):
    """`runtime.claims.AsksCoordinators` of a broker."""

    def is_asking(self, claim: Claim) -> bool:
        """Whether an earlier claim of the same producer waits for its answer."""
        return self.made is not None and self.made.verifier.is_asking(claim)

    def ask(self, claim: Claim, on_outcome: OnOutcome) -> None:
        """Ask the coordinator."""
        self.get().verifier.ask(claim, on_outcome)
