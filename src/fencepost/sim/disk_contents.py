"""What a simulated disk stores, and what a power loss leaves of it.

Every file has a cached content (what reads see) and a durable one, and the operations between the
two that no sync has covered yet; every directory likewise. `PowerLoss` draws, for each of those
pending operations, whether it reached the platter: all, none, a prefix, or any subset, and tears
the writes that only partly did. What comes out is the new world, and old handles are dead.

What real file systems were seen to leave of the same (`tests/powerloss/test_file_systems.py`), with
their power cut without a journal flush, and how many different ends the draw has for it:

| story                                      | ext4 (ordered)      | xfs         | here            |
|--------------------------------------------|---------------------|-------------|-----------------|
| file synced, directory synced              | kept                | kept        | kept            |
| `write_atomic`                             | the new content     | the same    | the same        |
| cut and synced; removed, directory synced  | so                  | so          | so              |
| append, not synced                         | old content         | old content | old, torn, new  |
| the same, written back by the kernel       | old content         | old content | old, torn, new  |
| the same, another file synced afterwards   | new size, zeros     | old content | old, torn, new, |
|                                            |                     |             | zeros           |
| the same, after a crash that took the size | new size, the bytes | old content | likewise, and   |
| of an append and not its bytes             | of the earlier run  |             | the old bytes   |
| new file, nothing synced                   | no file             | no file     | none, 0 bytes,  |
|                                            |                     |             | torn, whole     |
| new file, directory synced                 | 0 bytes             | 0 bytes     | 0 bytes to all  |
| new file, file synced only                 | whole               | whole       | whole, no file  |
| two new files, one synced                  | other one: 0 bytes  | 0 bytes     | any of both     |
| renamed over a file, nothing synced        | old file            | old file    | old, 0 bytes,   |
|                                            |                     |             | torn, new, none |
| renamed to a new name, directory synced    | 0 bytes             | 0 bytes     | 0 bytes to all  |
| renamed over a file, directory synced      | new content, or     | **0 bytes** | 0 bytes to all, |
|                                            | new size, zeros     |             | zeros           |
| file synced, renamed, directory not synced | old name and `.tmp` | the same    | that or renamed |
| removed, or truncated, nothing synced      | still there, whole  | the same    | that or done    |

So nothing here is kinder than what was seen, and much is worse: both journals commit in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

SECTOR_BYTES: Final = 512
BLOCK_BYTES: Final = 4096


class Inode:
    """A file's content, cached and durable, and the writes and cuts in between."""

    def __init__(self) -> None:
        self.cached = bytearray()
        self.durable = bytearray()
        self.behind = b""  # on the platter behind the durable end, within the last block
        self.pending: list[tuple[int, bytes | None]] = []  # (position, data) or (size, None)
        self.modified_ms = 0

    def apply(self, content: bytearray, position: int, data: bytes | None) -> None:
        if data is None:
            if position <= len(content):
                del content[position:]
            else:
                content.extend(bytes(position - len(content)))
            return
        if position > len(content):
            content.extend(bytes(position - len(content)))
        content[position : position + len(data)] = data

    def change(self, position: int, data: bytes | None) -> None:
        self.apply(self.cached, position, data)
        self.pending.append((position, data))

    def sync(self) -> None:
        last_block = len(self.durable) // BLOCK_BYTES * BLOCK_BYTES
        if any(data is None or at + len(data) > last_block for at, data in self.pending):
            self.behind = b""  # a block is written with zeros behind the end
        for position, data in self.pending:
            self.apply(self.durable, position, data)
        self.pending.clear()

    def lose(self, survives: bytearray, *, data_only: bool = False, zeros: int = 0) -> None:
        """The machine stops, and `survives` is left of the content.

        With `data_only` what was appended in the last block reached the platter, unlike the size;
        of the size that was to be, up to `zeros` bytes more did so, and not what was in them.
        """
        lost = self.cached[len(survives) :]
        grown = len(survives) - len(self.durable)
        behind = self.behind[grown:] if grown >= 0 else b""
        self.durable = survives
        if zeros and lost:
            self.durable = survives + (behind + bytes(zeros))[: min(zeros, len(lost))]
            behind = b""
        elif data_only and lost:
            behind = bytes(lost[: _room(survives)])
        self.behind = behind
        self.cached = bytearray(self.durable)
        self.pending.clear()


def _room(content: bytearray) -> int:
    """How many bytes the last block of a file has left."""
    return -len(content) % BLOCK_BYTES


Entries = dict[str, "Inode | Directory"]
Change = dict[str, "Inode | Directory | None"]


class Directory:
    """Names, cached and durable; a pending change sets some names and removes others at once."""

    def __init__(self) -> None:
        self.cached: Entries = {}
        self.durable: Entries = {}
        self.pending: list[Change] = []

    @staticmethod
    def apply(entries: Entries, change: Change) -> None:
        for name, node in change.items():
            if node is None:
                entries.pop(name, None)
            else:
                entries[name] = node

    def change(self, change: Change) -> None:
        self.apply(self.cached, change)
        self.pending.append(change)

    def sync(self) -> None:
        self.durable = dict(self.cached)
        self.pending.clear()

    def lose(self, survives: Iterable[Change]) -> None:
        """The machine stops, and these of the pending changes survive."""
        for change in survives:
            self.apply(self.durable, change)
        self.cached = dict(self.durable)
        self.pending.clear()


def as_durable(directory: Directory) -> Directory:
    """Another directory of what would be left of this one if nothing that waits survived."""
    made = Directory()
    for name, node in directory.durable.items():
        if isinstance(node, Directory):
            made.durable[name] = as_durable(node)
        else:
            copy = made.durable[name] = Inode()
            copy.durable, copy.modified_ms = bytearray(node.durable), node.modified_ms
            copy.cached = bytearray(node.durable)
    made.cached = dict(made.durable)
    return made


def lose_all_but(root: Directory, changes: int, torn_bytes: int | None) -> None:
    """The machine stops, and it is known what is left: nothing is drawn.

    Of each file the first `changes` unsynced changes survive, the last of them cut short to
    `torn_bytes` if that is given; of directories all, or, with no changes, none.
    """
    for node in list(_nodes(root)):
        if isinstance(node, Directory):
            node.lose(node.pending if changes else ())
            continue
        kept = node.pending[:changes]
        content = bytearray(node.durable)
        for index, (position, data) in enumerate(kept):
            is_torn = torn_bytes is not None and index == len(kept) - 1
            piece = data[:torn_bytes] if is_torn and data is not None else data
            node.apply(content, position, piece)
        node.lose(content)


class PowerLoss:
    """Draws what of the unsynced changes survives; `draw` as of `SimDisk`."""

    def __init__(self, draw: Callable[[int], int]) -> None:
        self._draw_below = draw

    def strike(self, root: Directory) -> None:
        """The machine stops."""
        for node in list(_nodes(root)):  # before names vanish: what is linked may come back
            if isinstance(node, Inode):
                self._settle_file(node)
            else:
                node.lose(self._draw(node.pending))

    def _draw(self, pending: list[Any]) -> list[Any]:
        fate = self._draw_below(4)
        if fate == 0 or not pending:
            return list(pending)
        if fate == 1:
            return []
        if fate == 2:
            return pending[: self._draw_below(len(pending) + 1)]
        return [item for item in pending if not self._draw_below(2)]

    def _settle_file(self, inode: Inode) -> None:
        kept = self._draw(inode.pending)
        content = bytearray(inode.durable)
        for index, (position, data) in enumerate(kept):
            if data is None or (index < len(kept) - 1 and self._draw_below(10) < 7):
                inode.apply(content, position, data)
                continue
            self._tear(inode, content, position, data)
        # ext4 may commit a size before what was appended is written: to the end of the block that
        # there was, or, once it has found blocks for the rest, all of it.
        fate = self._draw_below(4)
        zeros = {2: _room(content), 3: len(inode.cached)}.get(fate, 0)
        inode.lose(content, data_only=fate == 1, zeros=zeros)

    def _tear(self, inode: Inode, content: bytearray, position: int, data: bytes) -> None:
        kind = self._draw_below(3)
        if kind == 0:
            inode.apply(content, position, data)
        elif kind == 1:
            cut = self._draw_below(len(data) + 1)
            inode.apply(content, position, data[:cut])
        else:
            for start in range(0, len(data), SECTOR_BYTES):
                if not self._draw_below(2):
                    piece = data[start : start + SECTOR_BYTES]
                    inode.apply(content, position + start, piece)


def _nodes(directory: Directory) -> Iterator[Inode | Directory]:
    yield directory
    seen: set[int] = set()
    everything = [*directory.cached.values(), *directory.durable.values()]
    for change in directory.pending:
        everything.extend(node for node in change.values() if node is not None)
    for node in everything:
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Directory):
            yield from _nodes(node)
        else:
            yield node
