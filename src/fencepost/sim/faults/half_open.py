"""Connections are half-open: one side has forgotten them, the other waits for what never comes."""

from __future__ import annotations

from fencepost.sim.faults import Fault


class HalfOpen(Fault):
    """All of one node with another, or with every other; what is sent next gets through."""

    name = "half-open"
    needs_peers = True

    def act(self) -> None:
        ids = list(self.world.nodes)
        who = ids[self.lane.pick(len(ids))]
        others = [id_ for id_ in ids if id_ != who]
        if self.lane.pick(2) == 0:
            others = [others[self.lane.pick(len(others))]]
        self.world.did(self.name, lambda: f"{who} and {others} wait on dead connections")
        for other in others:
            self.world.network.forget(who, other)
            self.world.network.forget(other, who)


FAULT = HalfOpen
