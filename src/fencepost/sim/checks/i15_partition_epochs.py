"""I15: partition epochs rise with every change, and leader epochs never fall."""

from __future__ import annotations

from typing import Any

from fencepost.machines.image import PartitionDelta
from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import ReplicaView


class PartitionEpochs(Check):
    """Looks at what controllers commit, and at what replicas go by."""

    kind = "I15"

    def partition_changed(self, oracle: Oracle, image: Any, change: PartitionDelta) -> None:
        old, new = change.old, change.new
        if old is None or new is None:
            return
        name = f"{change.topic}-{change.index}"
        if new.partition_epoch <= old.partition_epoch:
            raise Violation(
                self.kind,
                f"{name} changes and its partition epoch goes from {old.partition_epoch} to"
                f" {new.partition_epoch}",
            )
        has_another = new.leader != old.leader and new.leader >= 0
        if new.leader_epoch < old.leader_epoch + (1 if has_another else 0):
            raise Violation(
                self.kind,
                f"{name} is led by {new.leader} in epoch {new.leader_epoch}, before by"
                f" {old.leader} in {old.leader_epoch}",
            )

    def replica_stepped(self, oracle: Oracle, view: ReplicaView) -> None:
        before = oracle.partitions.views.get((view.broker_id, view.key))
        if before is not None and view.leader_epoch < before.leader_epoch:
            raise Violation(
                self.kind,
                f"{view.broker_id} goes back from leader epoch {before.leader_epoch} to"
                f" {view.leader_epoch}",
            )


CHECK = PartitionEpochs
