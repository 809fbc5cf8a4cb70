"""A disk refuses: a write, a read or a sync fails, or there is no space left."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from fencepost.sim.faults import Fault

if TYPE_CHECKING:
    from fencepost.sim.node import SimNode

ERRORS = (
    ("sync", errno.EIO),
    ("write", errno.EIO),
    ("write", errno.ENOSPC),
    ("read", errno.EIO),
    ("create", errno.ENOSPC),
    ("rename", errno.EIO),
)


class BadDisk(Fault):
    """One operation of one node fails, once; the node may give up, and is started again.

    A sync that failed has lost what it was to save, and the next one is told that all is well; the
    page cache still shows what was lost.
    """

    name = "bad-disk"

    def act(self) -> None:
        node = self.a_node([one for one in self.world.alive() if one.disk.fault is None])
        if node is None:
            return
        operation, number = ERRORS[self.lane.pick(len(ERRORS))]
        self.world.did(
            self.name,
            lambda: f"the next {operation} of {node.id} fails with {errno.errorcode[number]}",
        )
        self._arm(node, operation, number)

    def _arm(self, node: SimNode, operation: str, number: int) -> None:
        node.is_excused = True

        def refuse(path: str) -> OSError:
            self.restart_later(node)
            return OSError(number, "the simulated disk refuses", path)

        node.disk.at_next(operation, "", refuse)

    def heal(self) -> None:
        for node in self.world.nodes.values():
            node.disk.fault = None


FAULT = BadDisk
