"""One file of a node goes back to what it was earlier, as a restored backup leaves it (S93)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fencepost.sim.disk_snapshots import DiskSnapshot, content_now, forgets_nothing
from fencepost.sim.faults import OldDisks


class StaleFile(OldDisks):
    """Of the metadata log, while the node is down; a majority of disks stays as it is.

    The rest of the directory is of now, and does not fit: the node may find that out and stay down.
    As with `rollback`, what it forgets all others hold.
    """

    name = "stale-file"
    is_rare = True

    def ways(self, kept: list[DiskSnapshot]) -> list[Callable[[], None]]:
        return [
            partial(self._put_back, one, path)
            for one in kept
            if forgets_nothing(one) and self.world.can_spare(one.node)
            for path in one.files()
            if content_now(one.node, path) != one.read(path)
        ]

    def _put_back(self, snapshot: DiskSnapshot, path: str) -> None:
        node = snapshot.node
        self.world.did(self.name, lambda: f"{path} of {node.id} is as it was earlier")
        node.kill()
        self.world.network.forget_all(node.id)
        node.disk.restore_file(snapshot.stored, path)
        node.world.observer.oracle.disks[node.id].is_damaged = True
        self.restart_later(node, 5_000)


FAULT = StaleFile
