"""A node's clock is set forward, or runs fast or slow (S55)."""

from __future__ import annotations

from fencepost.sim.clock import PAR
from fencepost.sim.faults import Fault

JUMPS_MS = (100, 3_000, 60_000, 3_600_000)
RATES = (PAR, PAR * 11 // 10, PAR * 9 // 10, PAR * 10, PAR // 10)


class Clocks(Fault):
    """One node; clocks that run wrong run right again when the world is healed."""

    name = "clocks"

    def act(self) -> None:
        nodes = list(self.world.nodes.values())
        node = nodes[self.lane.pick(len(nodes))]
        if self.lane.pick(2):
            rate = RATES[self.lane.pick(len(RATES))]
            self.world.did(self.name, lambda: f"the clock of {node.id} runs at {rate / PAR}")
            node.change_clock(rate=rate)
        else:
            jump_ms = JUMPS_MS[self.lane.pick(len(JUMPS_MS))]
            self.world.did(self.name, lambda: f"the clock of {node.id} jumps by {jump_ms} ms")
            node.change_clock(jump_ms=jump_ms)

    def heal(self) -> None:
        for node in self.world.nodes.values():
            node.change_clock(rate=PAR)


FAULT = Clocks
