"""I56: a user logs in with a credential of the image that the broker has applied, or not at all.

One that was deleted is not found from that image on, and one that was set is.
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.permission_oracle import CredentialTold


class Credentials(Check):
    """Compares what a broker has found with what its image has."""

    kind = "I56"

    def credential_told(self, oracle: Oracle, broker_id: int, told: CredentialTold) -> None:
        if told.found is not told.exists:
            what = "finds" if told.found else "does not find"
            raise Violation(self.kind, f"{broker_id} {what} {told.user}, unlike its image")


CHECK = Credentials
