"""I32: a transaction ends in all of its partitions, offsets included, and everywhere in one way.

A transaction whose producer was answered that it is committed is committed with all that was
acknowledged in it. A coordinator commits it only if the producer has asked for that, and has an
acknowledgement of all that it wrote; and aborts it only if the producer has asked for that, or if
InitProducerId has come for its transactional id, or if it has lasted too long by the coordinator's
clock.
"""

from __future__ import annotations

from fencepost.machines.transaction.model import TransactionState
from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.transaction_oracle import Decided, Marked, Transaction


class AllOrNothing(Check):
    """Compares the outcomes of a transaction with each other and with what its producer knows."""

    kind = "I32"

    def marked(self, oracle: Oracle, marked: Marked) -> None:
        for one in marked.ended:
            if one.is_torn or one.name == "?":
                continue
            is_own = not one.bumps and marked.batch.producer_epoch == one.producer_epoch
            if is_own and one.decided is not marked.commits:
                self._refuse(one, marked.commits, "and that is not decided")
            if (not marked.commits) in one.outcomes.values():
                self._refuse(one, marked.commits, "and in another partition it is not")
            if one.told is not None and one.told is not marked.commits:
                self._refuse(one, marked.commits, "and its producer heard that it is not")
            if marked.commits and True not in one.wanted:
                self._refuse(one, True, "and its producer never asked for that")
            if marked.commits and one.gave_up:
                self._refuse(one, True, "and its producer has given a batch up")

    def decided(self, oracle: Oracle, decided: Decided) -> None:
        before, after = decided
        if before is None or after is None or before.state is not TransactionState.ONGOING:
            return
        one = oracle.transactions.latest(*before.identity[:2])
        if one is None or one.is_torn or not after.is_ending or after.is_committed in one.wanted:
            return
        is_late = after.last_update_ms - before.start_ms >= before.timeout_ms
        if after.is_committed or not (is_late or oracle.transactions.is_fenced(one)):
            self._refuse(one, after.is_committed, "and no producer has asked for that")

    def _refuse(self, one: Transaction, commits: bool, why: str) -> None:
        word = "committed" if commits else "aborted"
        raise Violation(self.kind, f"transaction {one.name} is {word}, {why}")

    def at_end(self, oracle: Oracle) -> None:
        for one in oracle.transactions.all:
            is_committed = one.told or True in one.outcomes.values()
            if is_committed and not one.is_torn:
                self._look_for_gaps(oracle, one)

    def _look_for_gaps(self, oracle: Oracle, one: Transaction) -> None:
        partitions = {key for key, _ in one.acknowledged}
        gone = {key for key in partitions if key in oracle.partitions.deleted}
        for key in sorted(partitions - gone):
            if one.outcomes.get(key) is not True:
                raise Violation(
                    self.kind,
                    f"transaction {one.name} is committed, and not in partition {key[1]}, where it"
                    " has written",
                )
        if one.offsets and len(one.outcomes) <= len(partitions - gone):
            raise Violation(self.kind, f"transaction {one.name} is committed without its offsets")


CHECK = AllOrNothing
