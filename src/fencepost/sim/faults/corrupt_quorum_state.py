"""A bit of a node's quorum-state flips: it must not start on a vote that it may not have given."""

from __future__ import annotations

from fencepost.sim.damage import flip_state
from fencepost.sim.faults import Damage
from fencepost.sim.node import SimNode
from fencepost.sim.oracle import Violation


class CorruptQuorumState(Damage):
    """While the node is down; it finds it when it starts, and stays down."""

    name = "corrupt-quorum-state"

    def hurt(self, node: SimNode) -> str | None:
        bit = self.lane.pick(1 << 16)
        node.kill()
        flip_state(node, bit)
        node.start()
        if node.gave_up is None:
            raise Violation("damage", f"node {node.id} starts on a corrupt quorum-state")
        return f"quorum-state of {node.id} flips while it is down"


FAULT = CorruptQuorumState
