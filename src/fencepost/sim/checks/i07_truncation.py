"""I07: nothing that is committed is cut off, whether the node that cuts knows of it or not.

Nor does a replica delete records at a log's start above every offset of a DeleteRecords request.
"""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionKey


class Truncation(Check):
    """Looks for committed entries of the log in what is about to be cut off."""

    kind = "I07"

    def cutting(self, oracle: Oracle, node_id: int, end_offset: int) -> None:
        disk = oracle.disks[node_id]
        if disk.is_damaged or end_offset >= oracle.committed_offset:
            return
        for entry in disk.entries[disk.position(end_offset) :]:
            at = oracle.committed_position(entry.base_offset)
            if at < len(oracle.committed) and oracle.committed[at] == entry:
                raise Violation(
                    self.kind,
                    f"{node_id} cuts its log to {end_offset}, below committed {entry.base_offset}",
                )

    def replica_cutting(
        self, oracle: Oracle, broker_id: int, key: PartitionKey, end_offset: int
    ) -> None:
        log = oracle.partitions.log(broker_id, key)
        may_go = oracle.partitions.may_start_at.get(key, 0)
        for batch in log.entries[log.position(end_offset) :]:
            if batch.next_offset <= may_go:
                continue  # its leader's log begins behind it
            if oracle.partitions.visible_batch(key, batch.base_offset) == batch:
                raise Violation(
                    self.kind,
                    f"{broker_id} cuts partition {key[1]} to {end_offset}, below visible"
                    f" {batch.base_offset}",
                )

    def replica_starts(
        self, oracle: Oracle, broker_id: int, key: PartitionKey, start_offset: int
    ) -> None:
        may_go = oracle.partitions.may_start_at.get(key, 0)
        if start_offset > may_go:
            raise Violation(
                self.kind,
                f"{broker_id} deletes records of partition {key[1]} below {start_offset}, and"
                f" clients have asked for {may_go} at most",
            )


CHECK = Truncation
