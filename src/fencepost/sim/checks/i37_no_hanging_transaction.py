"""I37: no transaction hangs: when all is well, every one has its end wherever it has written.

Otherwise the last stable offset stands still for ever, and who reads committed data with it.
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation


class NoHangingTransaction(Check):
    """Looks for open transactions when the run is over."""

    kind = "I37"

    def at_end(self, oracle: Oracle) -> None:
        for key, transactions in sorted(oracle.transactions.undecided().items()):
            if key not in oracle.partitions.deleted:
                names = " ".join(one.name for one in transactions)
                raise Violation(
                    self.kind, f"no marker ends transaction {names} in partition {key[1]}"
                )


CHECK = NoHangingTransaction
