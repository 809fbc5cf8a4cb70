"""A node loses its disk and comes back with an empty one, under another directory id (S45)."""

from __future__ import annotations

from fencepost.sim.faults import Fault


class Wipe(Fault):
    """A node that is no voter, or one that the quorum can do without."""

    name = "wipe"
    is_rare = True

    def fits(self) -> bool:
        return self.world.options.is_dynamic and not self.world.options.begins_static

    def act(self) -> None:
        nodes = [node for node in self.world.controllers.values() if self.world.can_spare(node)]
        node = self.a_node(nodes)
        if node is None:
            return
        self.world.did(self.name, lambda: f"{node.id} loses its disk")
        node.kill()
        node.new_disk()
        self.restart_later(node)


FAULT = Wipe
