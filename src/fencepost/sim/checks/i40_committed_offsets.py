"""I40: a group's committed offset is the last that the log has, and no coordinator says otherwise.

A coordinator may know more than was committed when it was asked, and waits until that is committed
before it answers. What it says is never older than its high watermark was when it was asked, and
never what the log does not have.
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.group_oracle import OffsetsTold
from fencepost.sim.oracle import Oracle, Violation


class CommittedOffsets(Check):
    """Compares what a coordinator answers with the log up to its high watermark."""

    kind = "I40"

    def offset_told(self, oracle: Oracle, broker_id: int, told: OffsetsTold) -> None:
        right = oracle.groups.committed_between(
            told.partition, told.key, told.from_offset, told.to_offset
        )
        if told.offset not in right:
            group_id, topic, index = told.key
            expected = " or ".join(str(offset) for offset in right)
            raise Violation(
                self.kind,
                f"{broker_id} says that {group_id} has read {topic}-{index} to {told.offset},"
                f" and the log says {expected}",
            )


CHECK = CommittedOffsets
