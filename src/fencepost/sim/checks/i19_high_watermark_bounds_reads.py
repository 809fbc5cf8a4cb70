"""I19: a consumer is never given what some in-sync replica may still lose."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.log_contents import position
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionBatch, PartitionKey


class HighWatermarkBoundsReads(Check):
    """Looks whether what is read lies below the highest watermark that a leader has had."""

    kind = "I19"

    def consumed(self, oracle: Oracle, key: PartitionKey, batch: PartitionBatch) -> None:
        visible = oracle.partitions.visible.get(key, [])
        if position(visible, batch.base_offset) >= len(visible):
            raise Violation(
                self.kind,
                f"a consumer reads offset {batch.base_offset} of partition {key[1]}, and the high"
                f" watermark is {oracle.partitions.visible_offset(key)}",
            )


CHECK = HighWatermarkBoundsReads
