"""I33: a consumer of committed data reads nothing aborted or undecided, and misses nothing.

Share groups that read committed data are delivered nothing of that kind; I47 says what they miss.

What is undecided holds back everything behind it: the last stable offset is never beyond the first
transaction that is open, or whose marker is not committed.
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.share_oracle import Delivered
from fencepost.sim.transaction_oracle import ReadCommitted

_WORDS = {True: "is committed", False: "is aborted", None: "is undecided"}


class ReadsCommitted(Check):
    """Compares what was given of a stretch with how the transactions there have ended."""

    kind = "I33"

    def read_committed(self, oracle: Oracle, read: ReadCommitted) -> None:
        outcomes = oracle.transactions.outcomes.get(read.key, {})
        may_lack = oracle.partitions.cleaned(read.key).without_records
        for offset, outcome in outcomes.items():
            if not read.from_offset <= offset < read.to_offset:
                continue
            if outcome is True and offset in may_lack and offset not in read.given:
                continue
            if (offset in read.given) != (outcome is True) or outcome is None:
                did = "is given" if offset in read.given else "is not given"
                raise Violation(
                    self.kind,
                    f"client {read.client_id} {did} what stands at {offset} of partition"
                    f" {read.key[1]}, which {_WORDS[outcome]}, and reads on",
                )

    def share_delivered(self, oracle: Oracle, broker_id: int, delivered: Delivered) -> None:
        key = delivered.key.topic_id, delivered.key.partition
        for offset in range(delivered.first, delivered.last + 1):
            outcome = oracle.transactions.outcome_at(key, offset)
            if oracle.shares.reads_committed and outcome is not True:
                raise Violation(
                    self.kind,
                    f"{broker_id} delivers {offset} of partition {key[1]} to"
                    f" {delivered.member_id}, which {_WORDS[outcome]}",
                )


CHECK = ReadsCommitted
