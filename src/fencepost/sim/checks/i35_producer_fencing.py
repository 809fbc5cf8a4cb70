"""I35: a producer's epoch never falls, and it rises by one; an older one writes nowhere.

An end, or a fence, begins one epoch, not two (KAFKA-19367).
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionBatch, PartitionKey
from fencepost.sim.transaction_oracle import Decided


class ProducerFencing(Check):
    """Follows the epochs of producers, by partition and at their coordinators."""

    kind = "I35"

    def __init__(self) -> None:
        self._epochs: dict[tuple[PartitionKey, int], int] = {}

    def became_visible(self, oracle: Oracle, key: PartitionKey, batch: PartitionBatch) -> None:
        if batch.producer_id < 0:
            return
        producer = (key, batch.producer_id)
        epoch = self._epochs.get(producer, -1)
        if batch.producer_epoch < epoch:
            raise Violation(
                self.kind,
                f"producer {batch.producer_id} has written in epoch {batch.producer_epoch} at"
                f" {batch.base_offset} of partition {key[1]}, and epoch {epoch} has begun there",
            )
        self._epochs[producer] = batch.producer_epoch

    def decided(self, oracle: Oracle, decided: Decided) -> None:
        before, after = decided
        if before is None or after is None:
            return
        id_ = after.transactional_id
        was, is_ = before.identity, after.identity
        if was.producer_id != is_.producer_id or is_.epoch in (was.epoch, was.epoch + 1):
            return
        if (id_, is_.epoch) in oracle.transactions.jumps:
            oracle.transactions.jumps.discard((id_, is_.epoch))
        else:
            raise Violation(
                self.kind,
                f"{id_}: producer {is_.producer_id} goes from epoch {was.epoch} to {is_.epoch}",
            )


CHECK = ProducerFencing
