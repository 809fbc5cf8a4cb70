"""The power fails in the middle of what a node writes, between two operations of one file."""

from __future__ import annotations

from fencepost.sim.faults import Fault


class CrashInWrite(Fault):
    """The n-th change to the disk from now on is the last one, for small n."""

    name = "crash-in-write"

    def act(self) -> None:
        node = self.a_node([one for one in self.world.alive() if one.disk.crash_at is None])
        if node is None:
            return
        changes = 1 + self.lane.pick(12)
        self.world.did(self.name, lambda: f"{node.id} dies at its disk's change no. {changes}")
        node.disk.crash_at = node.disk.changes + changes
        self.restart_later(node)

    def heal(self) -> None:
        for node in self.world.nodes.values():
            node.disk.crash_at = None


FAULT = CrashInWrite
