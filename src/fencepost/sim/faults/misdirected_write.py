"""A disk puts a write in the wrong place, over something else, and says that all is well (S93)."""

from __future__ import annotations

from fencepost.sim.damage import misplace_batch
from fencepost.sim.faults import Damage
from fencepost.sim.node import SimNode


class MisdirectedWrite(Damage):
    """A batch is not where it was written, and stands over others; all other disks hold them all.

    It was written long ago: until now the page cache has shown what should be there.
    """

    name = "misdirected-write"

    def hurt(self, node: SimNode) -> str | None:
        offset, target = self.an_old_offset(node), self.an_old_offset(node)
        if offset is None or target is None:
            return None
        misplace_batch(node, offset, target, self.held_by_all())
        return f"the write of offset {offset} went to where {target} is on the disk of {node.id}"


FAULT = MisdirectedWrite
