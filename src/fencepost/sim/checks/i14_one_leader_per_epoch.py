"""I14: a leader epoch of a partition has at most one leader."""

from __future__ import annotations

from fencepost.sim.checks import Check
from fencepost.sim.oracle import Oracle, Violation
from fencepost.sim.partition_oracle import PartitionKey, ReplicaView


class OneLeaderPerEpoch(Check):
    """Keeps who has led in which epoch, for good."""

    kind = "I14"

    def __init__(self) -> None:
        self._leaders: dict[tuple[PartitionKey, int], int] = {}

    def replica_stepped(self, oracle: Oracle, view: ReplicaView) -> None:
        if not view.is_leader:
            return
        known = self._leaders.setdefault((view.key, view.leader_epoch), view.broker_id)
        if known != view.broker_id:
            raise Violation(
                self.kind,
                f"{known} and {view.broker_id} both lead partition {view.key[1]} in epoch"
                f" {view.leader_epoch}",
            )


CHECK = OneLeaderPerEpoch
