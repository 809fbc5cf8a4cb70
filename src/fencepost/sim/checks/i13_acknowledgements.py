"""I13: what a controller or a leader acknowledges is committed, at the offset that it answers.

Of partitions: a leader acknowledges acks=1 when a batch is durable on its disk, and acks=all when
the batch is visible.
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionKey


class Acknowledgements(Check):
    """Keeps what was acknowledged, and compares it with the committed log then and at the end."""

    kind = "I13"

    def __init__(self) -> None:
        self._told: dict[int, int] = {}

    def told_committed(self, oracle: Oracle, base_offset: int, crc: int) -> None:
        self._told[base_offset] = crc
        self._compare(oracle, base_offset)

    def at_end(self, oracle: Oracle) -> None:
        for base_offset in sorted(self._told):
            self._compare(oracle, base_offset)

    def produced(
        self, oracle: Oracle, broker_id: int, key: PartitionKey, base_offset: int, acks: int
    ) -> None:
        partitions = oracle.partitions
        if acks == 1 and partitions.log(broker_id, key).durable_offset <= base_offset:
            raise Violation(
                self.kind, f"{broker_id} acknowledges offset {base_offset}, which is not durable"
            )
        if acks == -1 and partitions.visible_offset(key) <= base_offset:
            raise Violation(
                self.kind,
                f"{broker_id} acknowledges offset {base_offset}, and the high watermark is"
                f" {partitions.visible_offset(key)}",
            )

    def acknowledged(
        self, oracle: Oracle, key: PartitionKey, base_offset: int, crc: int, known_offset: int
    ) -> None:
        batch = oracle.partitions.visible_batch(key, base_offset)
        if batch is None or batch.crc != crc:
            raise Violation(
                self.kind,
                f"a producer hears of offset {base_offset} of partition {key[1]}, where {batch} is",
            )

    def _compare(self, oracle: Oracle, base_offset: int) -> None:
        at = oracle.committed_position(base_offset)
        found = oracle.committed[at] if at < len(oracle.committed) else None
        if found is None or (found.base_offset, found.crc) != (
            base_offset,
            self._told[base_offset],
        ):
            raise Violation(
                self.kind, f"what was told to be committed at offset {base_offset} is not there"
            )


CHECK = Acknowledgements
