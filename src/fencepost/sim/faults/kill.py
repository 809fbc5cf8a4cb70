"""A process is killed and started again; its page cache survives."""

from __future__ import annotations

from fencepost.sim.faults import Fault


class Kill(Fault):
    """Any node, for up to ten seconds."""

    name = "kill"

    def act(self) -> None:
        node = self.a_node(self.world.alive())
        if node is None:
            return
        self.world.did(self.name, lambda: f"kill {node.id}")
        node.kill()
        self.restart_later(node)


FAULT = Kill
