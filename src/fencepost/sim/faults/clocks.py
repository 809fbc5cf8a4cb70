"""A node's wall clock is set or drifts, or both its clocks run fast or slow (S55)."""

from __future__ import annotations

from fencepost.sim.clock import PAR
from fencepost.sim.faults import Fault

JUMPS_MS = (100, 3_000, 60_000, 3_600_000, -3_600_000, -60_000, -3_000)
RATES = (PAR, PAR * 11 // 10, PAR * 9 // 10, PAR * 10, PAR // 10)


class Clocks(Fault):
    """Of one node, or of all that ask the same time server; when the world is healed, clocks run
    right again, and show what they show."""

    name = "clocks"

    def act(self) -> None:
        nodes = list(self.world.nodes.values())
        node = nodes[self.lane.pick(len(nodes))]
        kind = self.lane.pick(4)
        if kind < 2:
            jump_ms = JUMPS_MS[self.lane.pick(len(JUMPS_MS))]
            whose = f"the wall clock of {node.id} is" if kind == 0 else "all wall clocks are"
            say = f"{whose} set by {jump_ms} ms"
            for one in [node] if kind == 0 else nodes:
                one.change_clocks(jump_ms=jump_ms)
        else:
            rate = RATES[self.lane.pick(len(RATES))]
            which = "clocks run" if kind == 2 else "wall clock runs"
            say = f"node {node.id}: its {which} at {rate / PAR}"
            node.change_clocks(**{"rate" if kind == 2 else "wall_rate": rate})
        self.world.did(self.name, lambda: say)

    def heal(self) -> None:
        for node in self.world.nodes.values():
            node.change_clocks(rate=PAR)


FAULT = Clocks
