"""A disk takes its time to sync."""

from __future__ import annotations

from fencepost.sim.faults import Fault

JITTERS_US = (2_000, 50_000, 400_000, 3_000_000)


class SlowDisk(Fault):
    """One node's, until the world is healed."""

    name = "slow-disk"

    def act(self) -> None:
        nodes = list(self.world.nodes.values())
        node = nodes[self.lane.pick(len(nodes))]
        jitter_us = JITTERS_US[self.lane.pick(len(JITTERS_US))]
        self.world.did(self.name, lambda: f"syncs of {node.id} take up to {jitter_us} us")
        node.sync_jitter_us = jitter_us

    def heal(self) -> None:
        for node in self.world.nodes.values():
            node.sync_jitter_us = JITTERS_US[0]


FAULT = SlowDisk
