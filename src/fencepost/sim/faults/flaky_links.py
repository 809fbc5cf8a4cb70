"""Messages are lost, doubled and overtaken, at rates that last for a while."""

from __future__ import annotations

from fencepost.sim.faults import Fault

RATES = (0, 10, 50, 300)


class FlakyLinks(Fault):
    """One directed link in three, or all, until this strikes again."""

    name = "flaky-links"

    def act(self) -> None:
        rates = [RATES[self.lane.pick(len(RATES))] for _ in range(3)]
        hits = self.lane.pick(3)
        self.world.did(self.name, lambda: f"links lose, double, reorder {rates} per mille")
        for index, link in enumerate(self.world.network.links.values()):
            if hits == 0 or index % 3 == hits:
                link.lost, link.doubled, link.overtaken = rates


FAULT = FlakyLinks
