"""A machine loses power; of what was not synced the disk keeps what it likes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.sim.faults import Fault

if TYPE_CHECKING:
    from fencepost.sim.node import SimNode


class PowerLoss(Fault):
    """Any node, for up to ten seconds; one time in four, all nodes at once."""

    name = "power-loss"

    def act(self) -> None:
        alive = self.world.alive()
        node = self.a_node(alive)
        if node is None:
            return
        victims = alive if self.lane.pick(4) == 3 else [node]
        for victim in victims:
            self._cut(victim)

    def _cut(self, node: SimNode) -> None:
        self.world.did(self.name, lambda: f"power loss of {node.id}")
        node.lose_power()
        self.restart_later(node)


FAULT = PowerLoss
