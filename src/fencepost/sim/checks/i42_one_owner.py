"""I42: a generation of a group has one assignment, and no partition has two owners in it.

A member of an older generation may still believe that a partition is its own; what it commits is
refused (I43). A member that speaks the classic protocol in a consumer group may be given more in
the same generation, which is its member epoch: what it is told there is I45's.
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.group_oracle import AssignmentTold
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionKey


class OneOwner(Check):
    """Compares the assignments of one generation's members, whichever broker coordinates."""

    kind = "I42"

    def __init__(self) -> None:
        self._told: dict[tuple[PartitionKey, str, int], dict[str, AssignmentTold]] = {}

    def assignment_told(self, oracle: Oracle, broker_id: int, told: AssignmentTold) -> None:
        if oracle.groups.is_consumer_group(told.partition, told.group_id):
            return
        generation = self._told.setdefault((told.partition, told.group_id, told.generation), {})
        for other in generation.values():
            is_same = other.member_id == told.member_id
            if is_same and other.assigned != told.assigned:
                wrong = "has heard of another assignment"
            elif not is_same and other.assigned & told.assigned:
                wrong = f"shares {sorted(other.assigned & told.assigned)} with {other.member_id}"
            else:
                continue
            raise Violation(
                self.kind,
                f"{broker_id} assigns {sorted(told.assigned)} to {told.member_id} of"
                f" {told.group_id}, which {wrong} in generation {told.generation}",
            )
        generation[told.member_id] = told


CHECK = OneOwner
