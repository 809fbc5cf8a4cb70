"""One node does not reach another, which reaches it all the same."""

from __future__ import annotations

from fencepost.sim.faults import Fault


class OneWayCut(Fault):
    """One directed link, for up to eight seconds."""

    name = "one-way-cut"
    needs_peers = True

    def act(self) -> None:
        links = list(self.world.network.links)
        source, target = links[self.lane.pick(len(links))]
        self.world.did(self.name, lambda: f"cut {source} -> {target}")
        self.world.network.cut(source, target)
        self.later(8_000, lambda: self.world.network.reconnect(source, target))


FAULT = OneWayCut
