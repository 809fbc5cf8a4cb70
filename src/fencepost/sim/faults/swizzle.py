"""Nodes are clogged one after the other, and let go one after the other, in another order."""

from __future__ import annotations

from functools import partial

from fencepost.sim.faults import Fault


class Swizzle(Fault):
    """Some nodes; what comes to a clogged one waits, and arrives all at once in the end."""

    name = "swizzle"
    needs_peers = True

    def act(self) -> None:
        nodes = [id_ for id_ in self.world.nodes if self.lane.pick(2)]
        if not nodes:
            return
        self.world.did(self.name, lambda: f"{nodes} are clogged, one after the other")
        for node_id in nodes:
            ends_us = self.world.now_us + 1_000 * self.lane.between(1, 5_000)
            self.later(1_000, partial(self._clog, node_id, ends_us))

    def _clog(self, node_id: int, until_us: int) -> None:
        for (_, target), link in self.world.network.links.items():
            if target == node_id:
                link.clogged_until_us = max(link.clogged_until_us, until_us)


FAULT = Swizzle
