"""A machine loses power; of what was not synced the disk keeps what it likes."""

from __future__ import annotations

from fencepost.sim.faults import Fault


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
            self.world.did(self.name, lambda victim=victim: f"power loss of {victim.id}")
            victim.lose_power()
            self.later(10_000, lambda victim=victim: None if victim.is_up else victim.start())


FAULT = PowerLoss
