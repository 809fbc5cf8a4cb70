"""A process stops for a while and goes on as if nothing had been (SIGSTOP, a long collection)."""

from __future__ import annotations

from fencepost.sim.faults import Fault


class Pause(Fault):
    """Any node, for up to six seconds."""

    name = "pause"

    def act(self) -> None:
        node = self.a_node([one for one in self.world.alive() if not one.is_paused])
        if node is None:
            return
        self.world.did(self.name, lambda: f"pause {node.id}")
        node.pause()
        self.later(6_000, node.resume)

    def heal(self) -> None:
        for node in self.world.nodes.values():
            node.resume()


FAULT = Pause
