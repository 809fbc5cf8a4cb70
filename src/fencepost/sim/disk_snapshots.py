"""Earlier states of a node's disk, to be put back: what a restored machine wakes up with.

Nothing on such a disk says that it is old. So a voter that goes back may vote twice in an epoch,
and its leader counts batches that are there no more; no quorum of this kind survives that.
`forgets_nothing` says whether a node may go back: whether no other node depends on what it forgets.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from fencepost.log.names import QUORUM_STATE_FILE
from fencepost.sim.damage import DIRECTORY
from fencepost.sim.disk import SimDisk

if TYPE_CHECKING:
    from fencepost.sim.node import SimNode


class DiskSnapshot:
    """What the disk of a node holds now, without what no sync has covered."""

    def __init__(self, node: SimNode) -> None:
        self.node = node
        self.at_us = node.world.now_us
        self.directory_id = node.directory_id
        self.stored = node.disk.backup()
        known = node.world.observer.oracle.disks[node.id]
        self.known = copy(known)
        self.known.entries = list(known.entries)
        self.known.given_up = list(known.given_up)

    def read(self, path: str) -> bytes | None:
        """A file as it was; None if it was not there."""
        disk = SimDisk()
        disk.root = self.stored
        return disk.read(path) if disk.exists(path) else None

    def files(self) -> list[str]:
        """The paths of the files that the metadata log consisted of."""
        disk = SimDisk()
        disk.root = self.stored
        if not disk.exists(DIRECTORY):
            return []
        return [f"{DIRECTORY}/{name}" for name in disk.list(DIRECTORY)]

    def put_back(self) -> None:
        """The node, which is down, finds its disk as it was."""
        node = self.node
        node.disk.restore(self.stored)
        node.world.observer.put_back(node.id, copy(self.known))


def content_now(node: SimNode, path: str) -> bytes | None:
    """A file as it is; None if it is not there."""
    if not node.disk.exists(path):
        return None
    file = node.disk.seen_from_outside(path)
    return file.read_at(file.size(), 0)


def forgets_nothing(snapshot: DiskSnapshot) -> bool:
    """Whether its node has the same disk, sound, whose every batch all others hold, and has not
    voted since."""
    node = snapshot.node
    disks = node.world.observer.oracle.disks
    disk = disks[node.id]
    state = f"{DIRECTORY}/{QUORUM_STATE_FILE}"
    here = content_now(node, state)
    if snapshot.directory_id != node.directory_id or here is None or here != snapshot.read(state):
        return False
    if any(len(voters) < 2 for voters in node.world.observer.oracle.voter_sets()):
        return False  # a lone voter forgets for all
    last = disk.entries[-1] if disk.entries else None
    others = [other for id_, other in disks.items() if id_ != node.id]
    return (
        last is not None
        and not any(one.is_damaged for one in disks.values())
        and all(other.has_durable(last) for other in others)
    )
