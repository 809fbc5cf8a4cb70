"""A bit of a snapshot flips on a disk: it is not loaded, and no follower takes it over (S41)."""

from __future__ import annotations

from fencepost.sim.damage import flip_snapshot
from fencepost.sim.faults import Damage
from fencepost.sim.node import SimNode


class CorruptSnapshot(Damage):
    """One of a node's snapshots; one time in two the node is killed, and finds it at its start."""

    name = "corrupt-snapshot"

    def hurt(self, node: SimNode) -> str | None:
        flip_snapshot(node, self.lane.pick(3))
        if self.lane.pick(2):
            node.kill()
        return f"a snapshot flips on the disk of {node.id}"


FAULT = CorruptSnapshot
