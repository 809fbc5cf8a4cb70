"""Links are slow, or clogged: what is sent waits, and then comes all at once."""

from __future__ import annotations

from fencepost.sim.faults import Fault

JITTERS_US = (700, 20_000, 300_000, 1_500_000)


class SlowLinks(Fault):
    """One directed link at a time, until the world is healed."""

    name = "slow-links"
    needs_peers = True

    def act(self) -> None:
        links = list(self.world.network.links.items())
        (source, target), link = links[self.lane.pick(len(links))]
        if self.lane.pick(2):
            clog_ms = 1 + self.lane.pick(4_000)
            self.world.did(self.name, lambda: f"{source} -> {target} is clogged for {clog_ms} ms")
            link.clogged_until_us = self.world.now_us + clog_ms * 1_000
            return
        jitter_us = JITTERS_US[self.lane.pick(len(JITTERS_US))]
        self.world.did(self.name, lambda: f"{source} -> {target} takes up to {jitter_us} us")
        link.jitter_us = jitter_us


FAULT = SlowLinks
