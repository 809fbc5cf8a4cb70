"""Damage to what a disk holds, where a certain batch or file is.

Each function here notes the damage in the oracle, which then expects less of that disk: it counts
as lost wherever the oracle decides what a quorum can spare, and its node may give up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.batch.errors import BatchError
from fencepost.batch.header import iter_headers
from fencepost.log.names import QUORUM_STATE_FILE
from fencepost.sim.disk_contents import SECTOR_BYTES

if TYPE_CHECKING:
    from fencepost.sim.node import SimNode

DIRECTORY = "/data/__cluster_metadata-0"


def flip_batch(node: SimNode, offset: int, bit: int = 0) -> None:
    """Flip a bit in the records of the batch with `offset`; its checksum no longer fits.

    Raises LookupError if the batch is on no segment of the node's disk.
    """
    path, position, size = _find(node, offset)
    node.disk.flip_bit(path, (position + size) * 8 - 1 - bit % 64)
    _is_damaged(node)


def misplace_batch(node: SimNode, offset: int, target_offset: int, end_offset: int) -> None:
    """Have the write of one batch have gone to where another one is, at the start of its sector.

    Where the batch should be, nothing was ever written. Only batches below `end_offset` are hurt.
    LookupError if they are not in one segment, or too close to `end_offset`.
    """
    path, position, size = _find(node, offset)
    other_path, other, _ = _find(node, target_offset)
    target = other - other % SECTOR_BYTES
    if other_path != path or target + size > _end_position(node, path, end_offset):
        raise LookupError(f"node {node.id} has no room below {end_offset} for a misplaced batch")
    node.disk.misplace(path, position, size, target)
    _is_damaged(node)


def flip_snapshot(node: SimNode, newest: int = 0) -> None:
    """Flip a bit in the middle of a snapshot, of the newest or one older. LookupError."""
    names = sorted(name for name in node.disk.list(DIRECTORY) if name.endswith(".checkpoint"))
    if not names:
        raise LookupError(f"node {node.id} has no snapshot")
    path = f"{DIRECTORY}/{names[max(0, len(names) - 1 - newest)]}"
    node.disk.flip_bit(path, node.disk.size(path) * 4)
    _is_damaged(node)


def flip_state(node: SimNode, bit: int) -> None:
    """Flip a bit of `quorum-state`. LookupError if the node has never written one."""
    path = f"{DIRECTORY}/{QUORUM_STATE_FILE}"
    if not node.disk.exists(path):
        raise LookupError(f"node {node.id} has no {QUORUM_STATE_FILE}")
    node.disk.flip_bit(path, bit % (node.disk.size(path) * 8))
    _is_damaged(node)


def _is_damaged(node: SimNode) -> None:
    node.is_excused = True
    node.world.observer.oracle.disks[node.id].is_damaged = True


def _find(node: SimNode, offset: int) -> tuple[str, int, int]:
    """File, position and size of the batch with `offset`. LookupError."""
    for name in node.disk.list(DIRECTORY):
        if not name.endswith(".log"):
            continue
        path = f"{DIRECTORY}/{name}"
        for start, position, size, next_offset in _batches(node, path):
            if start <= offset < next_offset:
                return path, position, size
    raise LookupError(f"node {node.id} has no batch with offset {offset}")


def _end_position(node: SimNode, path: str, end_offset: int) -> int:
    """Where in this file the batches below `end_offset` end."""
    ends = [
        position + size
        for _, position, size, next_offset in _batches(node, path)
        if next_offset <= end_offset
    ]
    return max(ends, default=0)


def _content(node: SimNode, path: str) -> bytes:
    file = node.disk.seen_from_outside(path)
    return file.read_at(file.size(), 0)


def _batches(node: SimNode, path: str) -> list[tuple[int, int, int, int]]:
    """(first offset, position, size, next offset) of the batches of a file, up to any damage."""
    content = _content(node, path)
    found = []
    try:
        for position, header in iter_headers(memoryview(content)):
            found.append((header.base_offset, position, header.size_bytes, header.next_offset))
    except BatchError:
        return found
    return found
