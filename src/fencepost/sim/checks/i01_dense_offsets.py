"""I01: the batches of a replica follow each other without a gap and without an overlap."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionBatch, PartitionKey


class DenseOffsets(Check):
    """Looks at each batch as it is appended."""

    kind = "I01"

    def replica_appended(
        self, oracle: Oracle, broker_id: int, key: PartitionKey, batch: PartitionBatch
    ) -> None:
        log = oracle.partitions.log(broker_id, key)
        follows = batch.base_offset == log.end_offset
        if not log.entries and batch.base_offset in oracle.partitions.cleaned(key).without_records:
            follows = batch.base_offset <= log.end_offset  # its records below were deleted
        if not follows or batch.next_offset <= max(batch.base_offset, log.end_offset):
            raise Violation(
                self.kind,
                f"{broker_id} appends offsets {batch.base_offset} to {batch.next_offset - 1}"
                f" to a log of partition {key[1]} that ends at {log.end_offset}",
            )


CHECK = DenseOffsets
