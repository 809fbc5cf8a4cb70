"""I48: what a member of a share group has heard to be accepted or rejected is not delivered again.

Whatever leader or share coordinator has come since. A leader that is deposed and does not know it
may deliver what it knows: nothing is stored for it.
"""

from __future__ import annotations

from fencepost.machines.share.state_batch import SharePartitionKey
from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.share_oracle import Delivered


class SettledRecords(Check):
    """Remembers what members have heard."""

    kind = "I48"

    def __init__(self) -> None:
        self._settled: dict[SharePartitionKey, set[int]] = {}

    def share_acknowledged(
        self, oracle: Oracle, key: SharePartitionKey, first: int, last: int
    ) -> None:
        self._settled.setdefault(key, set()).update(range(first, last + 1))

    def share_delivered(self, oracle: Oracle, broker_id: int, delivered: Delivered) -> None:
        settled = self._settled.get(delivered.key, set())
        again = settled.intersection(range(delivered.first, delivered.last + 1))
        if again and not delivered.is_deposed:
            raise Violation(
                self.kind,
                f"{broker_id} delivers {min(again)} of partition {delivered.key.partition} to"
                f" {delivered.member_id} of {delivered.key.group_id}, though it was settled",
            )


CHECK = SettledRecords
