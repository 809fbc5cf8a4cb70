"""A machine goes back to an earlier state of its whole disk, as a virtual one is restored (S93)."""

from __future__ import annotations

from fencepost.sim.disk_snapshots import DiskSnapshot, forgets_nothing
from fencepost.sim.faults import Fault
from fencepost.sim.node import SimNode

TRIES = 20


class Rollback(Fault):
    """Copies of all disks are taken, and one is put back when its node forgets nothing that counts.

    What counts are votes, and batches that another disk does not hold. A voter that forgets those
    breaks what the others build on, and cannot know it: no quorum survives that, and this fault
    does not try it. What it does try is survived, and the node may not give up.
    """

    name = "rollback"

    def act(self) -> None:
        kept = [DiskSnapshot(node) for node in self.world.controllers.values()]
        self.later(6_000, lambda: self._try(kept, TRIES))

    def _try(self, kept: list[DiskSnapshot], tries: int) -> None:
        """Put one back now, or look again soon: some disk is behind the others mostly."""
        fitting = [one for one in kept if forgets_nothing(one)]
        if fitting:
            self._put_back(fitting[self.lane.pick(len(fitting))])
        elif tries:
            self.later(40, lambda: self._try(kept, tries - 1))

    def _put_back(self, snapshot: DiskSnapshot) -> None:
        node: SimNode = snapshot.node
        self.world.did(self.name, lambda: f"{node.id} goes back to {snapshot.at_us // 1_000} ms")
        node.kill()
        self.world.network.forget_all(node.id)  # or others would hear of what it has forgotten
        snapshot.put_back()
        self.later(5_000, lambda: None if node.is_up else node.start())


FAULT = Rollback
