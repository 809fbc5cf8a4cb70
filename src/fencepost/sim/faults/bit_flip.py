"""A bit of a batch flips on a disk (S53): it must be noticed, and nothing of it may spread."""

from __future__ import annotations

from fencepost.sim.damage import flip_batch
from fencepost.sim.faults import Damage
from fencepost.sim.node import SimNode


class BitFlip(Damage):
    """A batch of a node's log that all other disks hold, too; a majority of disks stays sound."""

    name = "bit-flip"

    def hurt(self, node: SimNode) -> str | None:
        offset = self.an_old_offset(node)
        bit = self.lane.pick(64)
        if offset is None:
            return None
        flip_batch(node, offset, bit)
        return f"offset {offset} flips on the disk of {node.id}"


FAULT = BitFlip
