"""I48: what a member of a share group has heard to be accepted or rejected is not delivered again.

Whatever leader or share coordinator has come since. A leader that is deposed and does not know it
may deliver what it knows: nothing is stored for it. What was accepted has no dead letters.
"""

from __future__ import annotations

from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.share_oracle import Delivered, Letters, Settled


class SettledRecords(Check):
    """Remembers what members have heard."""

    kind = "I48"

    def __init__(self) -> None:
        self._settled: dict[SharePartitionKey, set[int]] = {}
        self._accepted: dict[SharePartitionKey, set[int]] = {}

    def share_acknowledged(self, oracle: Oracle, settled: Settled) -> None:
        offsets = range(settled.first, settled.last + 1)
        self._settled.setdefault(settled.key, set()).update(offsets)
        if settled.is_accepted:
            self._accepted.setdefault(settled.key, set()).update(offsets)

    def share_delivered(self, oracle: Oracle, broker_id: int, delivered: Delivered) -> None:
        settled = self._settled.get(delivered.key, set())
        again = settled.intersection(range(delivered.first, delivered.last + 1))
        if again and not delivered.is_deposed:
            raise Violation(
                self.kind,
                f"{broker_id} delivers {min(again)} of partition {delivered.key.partition} to"
                f" {delivered.member_id} of {delivered.key.group_id}, though it was settled",
            )

    def letters_sent(self, oracle: Oracle, broker_id: int, letters: Letters) -> None:
        accepted = self._accepted.get(letters.key, set())
        wrong = accepted.intersection(range(letters.first, letters.last + 1))
        if wrong and not letters.is_deposed:
            raise Violation(
                self.kind,
                f"{broker_id} writes a dead letter for {min(wrong)} of partition"
                f" {letters.key.partition}, which {letters.key.group_id} has accepted",
            )


CHECK = SettledRecords
