"""I02: leader epochs never fall along a log, and the epoch cache says of each batch what it says.

Epochs without a batch of their own are in the cache as well: a leader that wrote nothing was there.
"""

from __future__ import annotations

from itertools import pairwise

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionBatch, PartitionKey


class EpochsAlongTheLog(Check):
    """Looks at batches as they are appended, and at the cache when a role or a log begins."""

    kind = "I02"

    def replica_appended(
        self, oracle: Oracle, broker_id: int, key: PartitionKey, batch: PartitionBatch
    ) -> None:
        entries = oracle.partitions.log(broker_id, key).entries
        if entries and batch.epoch < entries[-1].epoch:
            raise Violation(
                self.kind,
                f"{broker_id} appends a batch of epoch {batch.epoch} behind one of"
                f" {entries[-1].epoch}",
            )

    def epochs_seen(
        self, oracle: Oracle, broker_id: int, key: PartitionKey, epochs: list[tuple[int, int]]
    ) -> None:
        for one, other in pairwise(epochs):
            if one[0] >= other[0] or one[1] > other[1]:
                raise Violation(
                    self.kind, f"the epoch cache of {broker_id} is not in order: {epochs}"
                )
        log = oracle.partitions.log(broker_id, key)
        may_lack = oracle.partitions.cleaned(key).without_records
        for batch in log.entries:
            if batch.base_offset in may_lack:
                continue  # a replica that copied the log after compaction did not get this batch
            there = max(batch.base_offset, log.start_offset)  # some of it may be deleted
            begun = [epoch for epoch, start in epochs if start <= there]
            if not begun or begun[-1] != batch.epoch:
                raise Violation(
                    self.kind,
                    f"the epoch cache of {broker_id} says {begun[-1:]} of offset"
                    f" {batch.base_offset}, whose batch is of epoch {batch.epoch}",
                )


CHECK = EpochsAlongTheLog
