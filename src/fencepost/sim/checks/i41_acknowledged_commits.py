"""I41: a commit of an offset that was acknowledged is in the log, where no failover takes it.

What is committed stays (I07, I12, I20), so it is enough to look when a client gets the answer.
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.group_oracle import OffsetKey
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionKey


class AcknowledgedCommits(Check):
    """Looks up each offset that a client is answered is committed."""

    kind = "I41"

    def offset_acknowledged(
        self, oracle: Oracle, partition: PartitionKey, key: OffsetKey, offset: int
    ) -> None:
        if offset not in oracle.groups.committed(partition, key):
            raise Violation(
                self.kind,
                f"{key.group_id} hears that {offset} is committed for {key.topic}-{key.partition},"
                " and no committed record says so",
            )


CHECK = AcknowledgedCommits
