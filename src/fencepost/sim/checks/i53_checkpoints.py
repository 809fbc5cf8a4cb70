"""I53: no checkpoint is ahead of its log: a recovery point or log start promises durable records.

What lies below a recovery point is not read through after a crash, and a log that ends below either
counts as damaged. A high watermark is not ahead of the log's end when it is written down.
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import Checkpoints, PartitionKey


class CheckpointsBehindLogs(Check):
    """Compares what the files say with what the disk was told to keep."""

    kind = "I53"

    def checkpoints_seen(
        self, oracle: Oracle, broker_id: int, key: PartitionKey, seen: Checkpoints
    ) -> None:
        log = oracle.partitions.log(broker_id, key)
        for name, offset, bound in (
            ("recovery point", seen.recovery_point, log.durable_offset),
            ("log start", seen.start_offset, log.durable_offset),
            ("high watermark", seen.high_watermark, log.end_offset),
        ):
            if offset > bound:
                raise Violation(
                    self.kind,
                    f"{broker_id} has written down {name} {offset} of partition {key[1]}, its log"
                    f" ends at {log.end_offset} and is durable to {log.durable_offset}",
                )


CHECK = CheckpointsBehindLogs
