"""I34: a transaction ends once, as its coordinator has decided, and no marker comes before that.

What is decided is what `__transaction_state` has committed. A marker may be written again, by the
next coordinator for example, and says the same then. A producer has one transaction at a time in a
partition: the next one begins behind the marker of the last.
"""

from __future__ import annotations

from fencepost.machines.transaction.model import TransactionState
from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionBatch, PartitionKey
from fencepost.sim.transaction_oracle import Decided

_COMPLETE = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


class OneOutcome(Check):
    """Compares markers, as they are appended, with what is decided by then."""

    kind = "I34"

    def replica_appended(
        self, oracle: Oracle, broker_id: int, key: PartitionKey, batch: PartitionBatch
    ) -> None:
        if batch.commits is None:
            return
        decided = oracle.transactions.decision(batch.producer_id, batch.producer_epoch)
        if batch.commits not in decided:
            word = "commits" if batch.commits else "aborts"
            said = "no coordinator has decided" if not decided else "the decision is another"
            raise Violation(
                self.kind,
                f"{broker_id} has a marker at {batch.base_offset} of partition {key[1]} that {word}"
                f" epoch {batch.producer_epoch} of producer {batch.producer_id}, and {said}",
            )

    def became_visible(self, oracle: Oracle, key: PartitionKey, batch: PartitionBatch) -> None:
        if not batch.is_transactional or batch.commits is not None:
            return
        writes = oracle.groups.writes_in(key, batch)
        this = oracle.transactions.transaction_of(key, batch, writes)
        for one in oracle.transactions.open_in(key, batch.producer_id):
            if this is not None and one is not this and one.bumps:
                raise Violation(
                    self.kind,
                    f"transaction {this.name} has written at {batch.base_offset} of partition"
                    f" {key[1]}, where {one.name} has not ended",
                )

    def decided(self, oracle: Oracle, decided: Decided) -> None:
        before, after = decided
        if before is None or before.state not in _COMPLETE:
            return
        end = TransactionState.DEAD if after is None else after.state
        if end not in (before.state, _COMPLETE[before.state]):
            raise Violation(
                self.kind,
                f"{before.transactional_id} goes from {before.state.name} to {end.name}",
            )


CHECK = OneOutcome
