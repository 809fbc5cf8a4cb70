"""S45: a voter is a voter, whatever disk it has come back with (KAFKA-12181, KAFKA-17426)."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.machines.quorum.voters import ReplicaKey, Voter
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class CountsByNodeId(QuorumRules):
    """Tells replicas apart by their node ids alone."""

    def is_replica(self, voter: Voter, key: ReplicaKey) -> bool:
        return voter.id == key.id


ABLATION = Ablation(
    "a node that lost its disk counts for what the old disk had acknowledged",
    Rules(quorum=CountsByNodeId()),
    scenarios=("S45",),
    faults=("kill", "partition", "power-loss", "wipe"),
)
