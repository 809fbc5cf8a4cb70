"""I36: what an idempotent producer has written is there once, in its order, without a gap.

Behind sequence 2**31 - 1 comes 0.
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import FIRST_SEQUENCES, PartitionBatch, PartitionKey

SEQUENCES = 1 << 31


class ProducerSequences(Check):
    """Follows the sequence numbers of what becomes visible."""

    kind = "I36"

    def __init__(self) -> None:
        self._next: dict[tuple[PartitionKey, int], tuple[int, int]] = {}

    def became_visible(self, oracle: Oracle, key: PartitionKey, batch: PartitionBatch) -> None:
        if batch.producer_id < 0 or oracle.groups.writes_in(key, batch):
            return  # what a coordinator writes has no sequences
        first = batch.base_sequence if batch.base_sequence in FIRST_SEQUENCES else 0
        epoch, expected = self._next.get((key, batch.producer_id), (batch.producer_epoch, first))
        if batch.producer_epoch > epoch:
            epoch, expected = batch.producer_epoch, 0
        if batch.commits is not None:
            self._next[key, batch.producer_id] = epoch, expected
            return
        if batch.producer_epoch < epoch or batch.base_sequence != expected:
            raise Violation(
                self.kind,
                f"producer {batch.producer_id} has sequence {batch.base_sequence} at offset"
                f" {batch.base_offset} of partition {key[1]}, and {expected} is next",
            )
        count = batch.next_offset - batch.base_offset
        self._next[key, batch.producer_id] = epoch, (expected + count) % SEQUENCES


CHECK = ProducerSequences
