"""I09: a leader that may acknowledge counts every replica that the controllers might elect next.

Its maximal in-sync set holds the controllers' in-sync set and their eligible leader replicas. It is
asked of leaders of the newest epoch whose committed in-sync set is not below `min.insync.replicas`:
others do not move their high watermark (KIP-497, KIP-966).
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.image import PartitionDelta, PartitionImage
from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionKey, ReplicaView


class MaximalIsr(Check):
    """Compares the two whenever one of them changes."""

    kind = "I09"

    def __init__(self) -> None:
        self._committed: dict[PartitionKey, PartitionImage] = {}

    def partition_changed(self, oracle: Oracle, image: Any, change: PartitionDelta) -> None:
        key = change.topic_id, change.index
        if change.new is None:
            self._committed.pop(key, None)
            return
        self._committed[key] = change.new
        view = oracle.partitions.views.get((change.new.leader, key))
        if view is not None:
            self._compare(view, change.new)

    def replica_stepped(self, oracle: Oracle, view: ReplicaView) -> None:
        committed = self._committed.get(view.key)
        if view.is_leader and committed is not None:
            self._compare(view, committed)

    def _compare(self, view: ReplicaView, committed: PartitionImage) -> None:
        if not view.is_leader or view.leader_epoch != committed.leader_epoch:
            return
        candidates = {*committed.isr, *committed.eligible_leader_replicas}
        if len(view.isr) >= view.min_isr and not view.maximal_isr >= candidates:
            raise Violation(
                self.kind,
                f"{view.broker_id} leads partition {view.key[1]} and counts"
                f" {sorted(view.maximal_isr)}; the controllers have ISR {sorted(committed.isr)},"
                f" ELR {sorted(committed.eligible_leader_replicas)}",
            )


CHECK = MaximalIsr
