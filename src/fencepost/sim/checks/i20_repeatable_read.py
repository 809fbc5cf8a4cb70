"""I20: what is at an offset that a consumer may have read is there for ever."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.log_contents import position
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionBatch, PartitionKey, ReplicaView


class RepeatableRead(Check):
    """Compares what is read, and what leaders show again, with what was there to be read before."""

    kind = "I20"

    def consumed(self, oracle: Oracle, key: PartitionKey, batch: PartitionBatch) -> None:
        visible = oracle.partitions.visible.get(key, [])
        at = position(visible, batch.base_offset)
        if at < len(visible) and visible[at] != batch:
            raise Violation(
                self.kind,
                f"a consumer reads {batch} of partition {key[1]}, where there was {visible[at]}",
            )

    def replica_stepped(self, oracle: Oracle, view: ReplicaView) -> None:
        partitions = oracle.partitions
        before = partitions.views.get((view.broker_id, view.key))
        known = before.high_watermark if before is not None else view.start_offset
        if not view.is_leader or view.high_watermark <= known:
            return
        visible = partitions.visible.get(view.key, [])
        log = partitions.log(view.broker_id, view.key)
        shown = log.entries[log.position(known) : log.position(view.high_watermark)]
        there = visible[position(visible, known) : position(visible, view.high_watermark)]
        if shown[: len(there)] != there:
            raise Violation(
                self.kind,
                f"{view.broker_id} shows {shown} of partition {view.key[1]}, where there was"
                f" {there}",
            )


CHECK = RepeatableRead
