"""A sync takes up to 15 seconds: the disk hangs, and so does the node that waits for it."""

from __future__ import annotations

from fencepost.sim.faults import Fault

MOST_MS = 15_000


class StuckSync(Fault):
    """One node's, for up to fifteen seconds.

    Flushes of the log run aside, and are just late. The writing of a vote and the cutting of the
    log are waited for, and until then the node is deaf and says nothing.
    """

    name = "stuck-sync"

    def act(self) -> None:
        world = self.world
        node = self.a_node([n for n in world.alive() if n.stuck_until_us <= world.now_us])
        if node is None:
            return
        stuck_ms = self.lane.between(1, MOST_MS)
        world.did(self.name, lambda: f"no sync of {node.id} ends for {stuck_ms} ms")
        node.stuck_until_us = world.now_us + stuck_ms * 1_000

    def heal(self) -> None:
        for node in self.world.nodes.values():
            node.unstick()


FAULT = StuckSync
