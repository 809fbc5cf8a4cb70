"""One file of a node goes back to what it was earlier, as a restored backup leaves it (S93)."""

from __future__ import annotations

from fencepost.sim.disk_snapshots import DiskSnapshot, content_now, forgets_nothing
from fencepost.sim.faults import Fault

TRIES = 20


class StaleFile(Fault):
    """Of the metadata log, while the node is down; a majority of disks stays as it is.

    The rest of the directory is of now, and does not fit: the node may find that out and stay down.
    As with `rollback`, what it forgets all others hold.
    """

    name = "stale-file"
    is_rare = True

    def act(self) -> None:
        kept = [DiskSnapshot(node) for node in self.world.controllers.values()]
        self.later(6_000, lambda: self._try(kept, TRIES))

    def _try(self, kept: list[DiskSnapshot], tries: int) -> None:
        """Put a file back now, or look again soon: some disk is behind the others mostly."""
        fitting = [
            (one, path)
            for one in kept
            if forgets_nothing(one) and self.world.can_spare(one.node)
            for path in one.files()
            if content_now(one.node, path) != one.read(path)
        ]
        if fitting:
            self._put_back(*fitting[self.lane.pick(len(fitting))])
        elif tries:
            self.later(40, lambda: self._try(kept, tries - 1))

    def _put_back(self, snapshot: DiskSnapshot, path: str) -> None:
        node = snapshot.node
        self.world.did(self.name, lambda: f"{path} of {node.id} is as it was earlier")
        node.kill()
        self.world.network.forget_all(node.id)
        node.disk.restore_file(snapshot.stored, path)
        node.world.observer.oracle.disks[node.id].is_damaged = True
        self.later(5_000, lambda: None if node.is_up else node.start())


FAULT = StaleFile
