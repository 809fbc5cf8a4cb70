"""A machine goes back to an earlier state of its whole disk, as a virtual one is restored (S93)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fencepost.sim.disk_snapshots import DiskSnapshot, forgets_nothing
from fencepost.sim.faults import OldDisks
from fencepost.sim.node import SimNode


class Rollback(OldDisks):
    """Copies of all disks are taken, and one is put back when its node forgets nothing that counts.

    What counts are votes, and batches that another disk does not hold. A voter that forgets those
    breaks what the others build on, and cannot know it: no quorum survives that, and this fault
    does not try it. What it does try is survived, and the node may not give up.
    """

    name = "rollback"

    def ways(self, kept: list[DiskSnapshot]) -> list[Callable[[], None]]:
        return [partial(self._put_back, one) for one in kept if forgets_nothing(one)]

    def _put_back(self, snapshot: DiskSnapshot) -> None:
        node: SimNode = snapshot.node
        self.world.did(self.name, lambda: f"{node.id} goes back to {snapshot.at_us // 1_000} ms")
        node.kill()
        self.world.network.forget_all(node.id)  # or others would hear of what it has forgotten
        snapshot.put_back()
        self.restart_later(node, 5_000)


FAULT = Rollback
