"""I11: each replica that may be elected without loss has all visible records, durably on its disk.

These are the in-sync replicas and the eligible leader replicas (KIP-966). A broker whose disk is
lost or that has not come back from a crash is not looked at: it registers again first, and is
neither from then on if it may lack anything.
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.image import PartitionDelta
from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation


class Candidates(Check):
    """Looks at the disks of all candidates when the controllers have changed who they are."""

    kind = "I11"

    def partition_changed(self, oracle: Oracle, image: Any, change: PartitionDelta) -> None:
        partitions, key, new = oracle.partitions, (change.topic_id, change.index), change.new
        if new is None or key in partitions.deleted:
            return
        visible = partitions.visible.get(key, [])
        for broker_id in (*new.isr, *new.eligible_leader_replicas):
            log = partitions.logs.get((broker_id, key))
            if not visible or log is None or (broker_id, key) not in partitions.views:
                continue
            there = [batch for batch in visible if batch.next_offset > log.start_offset]
            held = log.between(log.start_offset, visible[-1].next_offset)
            if held != there or log.durable_offset < visible[-1].next_offset:
                raise Violation(
                    self.kind,
                    f"{broker_id} may be elected to lead {change.topic}-{change.index}; of what is"
                    f" visible to {visible[-1].next_offset} it has"
                    f" {[batch.base_offset for batch in held]}, durable to {log.durable_offset}",
                )


CHECK = Candidates
