"""Damage to what a disk holds: bits that rot where a certain batch is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.batch.header import iter_headers

if TYPE_CHECKING:
    from fencepost.sim.node import SimNode

DIRECTORY = "/data/__cluster_metadata-0"


def flip_batch(node: SimNode, offset: int, bit: int = 0) -> None:
    """Flip a bit in the records of the batch with `offset`; its checksum no longer fits.

    Raises LookupError if the batch is on no segment of the node's disk.
    """
    for name in node.disk.list(DIRECTORY):
        if not name.endswith(".log"):
            continue
        path = f"{DIRECTORY}/{name}"
        content = node.disk.read(path)
        for position, header in iter_headers(memoryview(content)):
            if header.base_offset <= offset < header.next_offset:
                last = (position + header.size_bytes) * 8 - 1
                node.disk.flip_bit(path, last - bit % 64)
                node.world.watch.truth.disks[node.id].is_damaged = True
                return
    raise LookupError(f"node {node.id} has no batch with offset {offset}")


def flip_snapshot(node: SimNode) -> None:
    """Flip a bit in the middle of the newest snapshot of a node. LookupError if it has none."""
    names = sorted(name for name in node.disk.list(DIRECTORY) if name.endswith(".checkpoint"))
    if not names:
        raise LookupError(f"node {node.id} has no snapshot")
    path = f"{DIRECTORY}/{names[-1]}"
    node.disk.flip_bit(path, len(node.disk.read(path)) * 4)
