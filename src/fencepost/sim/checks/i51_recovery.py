"""I51: after a crash a log is a prefix of what it was, with everything that was durable."""

from __future__ import annotations

from typing import Any

from fencepost.sim.checks import Check
from fencepost.sim.log_contents import LogContents
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionBatch, PartitionKey


class Recovery(Check):
    """Compares what a node finds with what its disk was told to keep."""

    kind = "I51"

    def recovered(self, oracle: Oracle, node_id: int, found: list[Any], start_offset: int) -> None:
        disk = oracle.disks[node_id]
        if not disk.is_damaged:
            self._compare(f"{node_id}", disk, found, start_offset)

    def replica_recovered(
        self,
        oracle: Oracle,
        broker_id: int,
        key: PartitionKey,
        found: list[PartitionBatch],
        start_offset: int,
    ) -> None:
        log = oracle.partitions.log(broker_id, key)
        self._compare(f"{broker_id}, of partition {key[1]},", log, found, start_offset)

    def _compare(
        self, who: str, disk: LogContents[Any], found: list[Any], start_offset: int
    ) -> None:
        written = {entry.base_offset: entry for entry in disk.entries}
        unknown = 0
        for entry in found:
            if entry.base_offset < disk.start_offset:
                continue  # what was to go, and is still there
            unknown += entry.base_offset not in written
            if written.get(entry.base_offset, entry) != entry or unknown > disk.on_their_way:
                raise Violation(self.kind, f"{who} finds other batches than were written")
        end_offset = found[-1].next_offset if found else start_offset
        if end_offset < disk.durable_offset:
            raise Violation(
                self.kind,
                f"{who} finds its log to {end_offset}, {disk.durable_offset} was durable",
            )


CHECK = Recovery
