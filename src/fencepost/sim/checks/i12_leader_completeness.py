"""I12: who leads a partition has everything that was acknowledged or that a consumer may have read.

The check looks at a replica that begins to lead, if no newer leader epoch is committed or was led
in before; a replica with an older epoch has missed an election, and no follower follows it.
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.image import PartitionDelta
from fencepost.sim.checks import Check
from fencepost.sim.log_contents import position
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionKey, ReplicaView


class LeaderCompleteness(Check):
    """Compares the log of a new leader with what is visible and what is acknowledged."""

    kind = "I12"

    def __init__(self) -> None:
        self._newest: dict[PartitionKey, int] = {}

    def partition_changed(self, oracle: Oracle, image: Any, change: PartitionDelta) -> None:
        if change.new is not None:
            self._newest[change.topic_id, change.index] = change.new.leader_epoch

    def replica_stepped(self, oracle: Oracle, view: ReplicaView) -> None:
        before = oracle.partitions.views.get((view.broker_id, view.key))
        if not view.is_leader or view.leader_epoch < self._newest.get(view.key, -1):
            return
        if before is None or not before.is_leader or before.leader_epoch != view.leader_epoch:
            self._newest[view.key] = view.leader_epoch
            self._compare(oracle, view)

    def _compare(self, oracle: Oracle, view: ReplicaView) -> None:
        partitions = oracle.partitions
        log = partitions.log(view.broker_id, view.key)
        wanted = [
            *partitions.visible.get(view.key, ()),
            *partitions.acknowledged.get(view.key, {}).values(),
        ]
        for batch in wanted:
            at = position(log.entries, batch.base_offset)
            if batch.next_offset <= log.start_offset:
                continue
            if at >= len(log.entries) or log.entries[at] != batch:
                raise Violation(
                    self.kind,
                    f"{view.broker_id} leads partition {view.key[1]} in epoch {view.leader_epoch}"
                    f" without the batch at {batch.base_offset} of epoch {batch.epoch}",
                )


CHECK = LeaderCompleteness
