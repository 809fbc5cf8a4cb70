"""I17: what a leader shows is durable on every in-sync replica, and there are enough of them."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import ReplicaView


class VisibleIsDurable(Check):
    """Looks at the disks of the in-sync set when a leader moves its high watermark."""

    kind = "I17"

    def replica_stepped(self, oracle: Oracle, view: ReplicaView) -> None:
        partitions = oracle.partitions
        before = partitions.views.get((view.broker_id, view.key))
        known = before.high_watermark if before is not None else view.high_watermark
        if not view.is_leader or view.high_watermark <= known:
            return
        if view.key in partitions.deleted:
            return  # a follower that knows so already has nothing of it any more
        if len(view.isr) < view.min_isr:
            raise Violation(
                self.kind,
                f"{view.broker_id} moves the high watermark to {view.high_watermark} with an ISR of"
                f" {sorted(view.isr)}, {view.min_isr} are needed",
            )
        shown = partitions.log(view.broker_id, view.key)
        to = shown.position(view.high_watermark)
        for broker_id in sorted(view.isr):
            log = partitions.log(broker_id, view.key)
            # What it has deleted (DeleteRecords) its leader may still have.
            begin = max(known, log.start_offset)
            wanted = shown.entries[shown.position(begin) : to]
            at = log.position(begin)
            has_all = log.entries[at : at + len(wanted)] == wanted
            if log.durable_offset < view.high_watermark or not has_all:
                raise Violation(
                    self.kind,
                    f"{view.broker_id} shows offsets to {view.high_watermark} of partition"
                    f" {view.key[1]}; in-sync {broker_id} has {log.durable_offset} on its disk",
                )


CHECK = VisibleIsDurable
