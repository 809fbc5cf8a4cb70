"""A disk in memory that forgets, tears and lies exactly as a real one may, drawn from one seed.

It is `fencepost.log.disk.Disk`, and the real log runs on it. Draws come from a seed or from a
function `draw(n)` that gives a number in [0, n), where 0 always is the kindest end.

Every file has a cached content (what reads see) and a durable one, and the operations between the
two that no sync has covered yet; every directory likewise. `power_loss` draws, for each of those
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
| renamed over a file, directory synced      | new content         | **0 bytes** | 0 bytes to all  |
| file synced, renamed, directory not synced | old name and `.tmp` | the same    | that or renamed |
| removed, or truncated, nothing synced      | still there, whole  | the same    | that or done    |

So nothing here is kinder than what was seen, and much is worse: both journals commit in order.

Faults:

* `crash_at = n`: the n-th operation that changes anything raises `Crash` half-way through.
* `fault`: a function of (operation, path, count) that may return an OSError to raise. A write that
  fails leaves half of its bytes; a sync that fails throws the pending data away for good, and the
  next one succeeds, as Linux does.
* `flip_bit` damages what is stored, `misplace` has a write go to the wrong place.
* `restore` and `restore_file` put back what was stored at the time of a `backup`.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator
from typing import Any

from fencepost.log.disk import FILE_BYTES_MAX, Buffer, ClosedFileError, check_size
from fencepost.log.errors import LogDirLockedError

SECTOR_BYTES = 512
BLOCK_BYTES = 4096


class Crash(BaseException):
    """The machine stops here. Not an Exception: no error handling may get in its way."""


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

    def lose(self, survives: bytearray, data_only: bool, size_only: bool) -> None:
        """The machine stops, and `survives` is left of the content.

        With `data_only` what was appended in the last block reached the platter, unlike the size;
        with `size_only` it is the other way round.
        """
        lost = self.cached[len(survives) :]
        grown = len(survives) - len(self.durable)
        behind = self.behind[grown:] if grown >= 0 else b""
        self.durable = survives
        if size_only and lost:
            room = -len(survives) % BLOCK_BYTES
            self.durable = survives + (behind + bytes(room))[: min(room, len(lost))]
            behind = b""
        elif data_only and lost:
            behind = bytes(lost[: -len(survives) % BLOCK_BYTES])
        self.behind = behind
        self.cached = bytearray(self.durable)
        self.pending.clear()


Entries = dict[str, "Inode | Directory"]


class Directory:
    """Names, cached and durable; a pending change sets some names and removes others at once."""

    def __init__(self) -> None:
        self.cached: Entries = {}
        self.durable: Entries = {}
        self.pending: list[dict[str, Inode | Directory | None]] = []

    @staticmethod
    def apply(entries: Entries, change: dict[str, Inode | Directory | None]) -> None:
        for name, node in change.items():
            if node is None:
                entries.pop(name, None)
            else:
                entries[name] = node

    def change(self, change: dict[str, Inode | Directory | None]) -> None:
        self.apply(self.cached, change)
        self.pending.append(change)

    def sync(self) -> None:
        self.durable = dict(self.cached)
        self.pending.clear()


def _as_durable(directory: Directory) -> Directory:
    """Another directory of what would be left of this one if nothing that waits survived."""
    made = Directory()
    for name, node in directory.durable.items():
        if isinstance(node, Directory):
            made.durable[name] = _as_durable(node)
        else:
            copy = made.durable[name] = Inode()
            copy.durable, copy.modified_ms = bytearray(node.durable), node.modified_ms
            copy.cached = bytearray(node.durable)
    made.cached = dict(made.durable)
    return made


class SimFile:
    """See `fencepost.log.disk.File`."""

    def __init__(self, disk: SimDisk, path: str, inode: Inode) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._incarnation = disk.incarnation
        self._open = True
        disk.open_files += 1

    def _check(self) -> None:
        if self._incarnation != self._disk.incarnation:
            raise Crash("a handle from before the crash was used")
        if not self._open:
            raise ClosedFileError(f"{self.path} is closed")

    def write_at(self, data: Buffer, position: int) -> None:
        self._check()
        content = bytes(data)

        def half() -> None:
            self._inode.change(position, content[: len(content) // 2])

        self._disk.count("write", self.path, half)
        self._inode.change(position, content)
        self._inode.modified_ms = self._disk.now_ms
        self._disk.maybe_crash()

    def read_at(self, size: int, position: int) -> bytes:
        self._check()
        self._disk.count("read", self.path)
        return bytes(self._inode.cached[position : position + size])

    def read_cached(self, size: int, position: int) -> bytes | None:
        return None  # reads wait for nothing here

    def size(self) -> int:
        self._check()
        return len(self._inode.cached)

    def truncate(self, size: int) -> None:
        self._check()
        self._disk.count("truncate", self.path)
        self._inode.change(size, None)
        self._inode.modified_ms = self._disk.now_ms
        self._disk.maybe_crash()

    def reserve(self, size: int) -> None:
        self._check()
        self._disk.count("reserve", self.path)

    def sync(self) -> None:
        self._check()
        self._disk.count("sync", self.path, self._inode.pending.clear)
        self._disk.maybe_crash()
        self._inode.sync()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._disk.open_files -= 1


class OutsideFile:
    """The content of a file, for an observer."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read_at(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position`."""
        return self._content[position : position + size]

    def size(self) -> int:
        """Size in bytes."""
        return len(self._content)


class SimLock:
    """See `fencepost.log.disk.Lock`."""

    def __init__(self, disk: SimDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.locks.discard(self._path)


class SimDisk:
    """See the module docstring, and `fencepost.log.disk.Disk`."""

    sync_threads = 1

    def __init__(self, seed: int = 0, draw: Callable[[int], int] | None = None) -> None:
        self._draw_below = draw or random.Random(seed).randrange
        self.root = Directory()
        self.locks: set[str] = set()
        self.now_ms = 1_700_000_000_000
        self.incarnation = 0
        self.open_files = 0
        self.free = 1 << 40
        """What `free_bytes` says; nothing gets less of it."""
        self.changes = 0
        self.crash_at: int | None = None
        self.keeps_operations = True
        """Whether `operations` lists what was done; a long simulation has no use for it."""
        self.operations: list[tuple[str, str]] = []
        self.last = ("", "")
        self._seen: dict[str, int] = {}
        self.fault: Callable[[str, str, int], OSError | None] | None = None

    def reseed(self, seed: int) -> None:
        """Draw from another seed from now on."""
        self._draw_below = random.Random(seed).randrange

    def seen_from_outside(self, path: str) -> OutsideFile:
        """What reads of a file give now, without being an operation on the disk."""
        return OutsideFile(bytes(self._inode(path).cached))

    # ---- faults

    def count(self, operation: str, path: str, half: Callable[[], object] | None = None) -> None:
        """Note an operation; raise what `fault` wants raised, after the `half` that got done."""
        self.last = operation, path
        if self.keeps_operations:
            self.operations.append(self.last)
        self._seen[operation] = self._seen.get(operation, 0) + 1
        if operation != "read":
            self.changes += 1
        if self.fault is not None:
            error = self.fault(operation, path, self._seen[operation])
            if error is not None:
                if half is not None:
                    half()
                raise error

    def maybe_crash(self) -> None:
        """Raise Crash when the operation that is being done is the chosen one."""
        if self.crash_at is not None and self.changes >= self.crash_at:
            raise Crash(f"at change {self.changes}: {self.last}")

    def process_death(self) -> None:
        """The process is gone, the machine is not: caches stay, handles and locks do not."""
        self.incarnation += 1
        self.open_files = 0
        self.locks.clear()
        self.crash_at = None
        self.changes = 0
        self.operations.clear()
        self._seen.clear()

    def lose_power_keeping(self, changes: int, torn_bytes: int | None = None) -> None:
        """The machine is gone, and it is known what is left: nothing is drawn.

        Of each file the first `changes` unsynced changes survive, the last of them cut short to
        `torn_bytes` if that is given; of directories all, or, with no changes, none.
        """
        for node in list(self._nodes(self.root)):
            if isinstance(node, Inode):
                kept = node.pending[:changes]
                content = bytearray(node.durable)
                for index, (position, data) in enumerate(kept):
                    is_torn = torn_bytes is not None and index == len(kept) - 1
                    piece = data[:torn_bytes] if is_torn and data is not None else data
                    node.apply(content, position, piece)
                node.lose(content, data_only=False, size_only=False)
            else:
                for change in node.pending if changes else ():
                    node.apply(node.durable, change)
                node.cached = dict(node.durable)
                node.pending.clear()
        self.process_death()

    def power_loss(self) -> None:
        """The machine is gone: draw what of the unsynced changes survives."""
        nodes = list(self._nodes(self.root))  # before names vanish: what is linked may come back
        for node in nodes:
            if isinstance(node, Inode):
                self._settle_file(node)
            else:
                for change in self._draw(node.pending):
                    node.apply(node.durable, change)
                node.cached = dict(node.durable)
                node.pending.clear()
        self.process_death()

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
        fate = self._draw_below(4)
        inode.lose(content, data_only=fate == 1, size_only=fate == 2)

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

    def _nodes(self, directory: Directory) -> Iterator[Inode | Directory]:
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
                yield from self._nodes(node)
            else:
                yield node

    def flip_bit(self, path: str, bit: int) -> None:
        """Damage the stored file."""
        inode = self._inode(path)
        inode.cached[bit // 8] ^= 1 << bit % 8
        inode.durable[:] = inode.cached

    def misplace(self, path: str, position: int, size: int, target: int) -> None:
        """A write of these bytes went to `target` in the stored file; here nothing ever came."""
        inode = self._inode(path)
        inode.sync()
        piece = bytes(inode.cached[position : position + size])
        inode.apply(inode.cached, position, bytes(size))
        inode.apply(inode.cached, target, piece)
        inode.durable[:] = inode.cached

    def backup(self) -> Directory:
        """What is stored now, for `restore`: the caches of a running machine are not part of it."""
        return _as_durable(self.root)

    def restore(self, backup: Directory) -> None:
        """Everything is as it was when `backup` was taken; the machine has been off."""
        self.root = _as_durable(backup)
        self.process_death()

    def restore_file(self, backup: Directory, path: str) -> None:
        """One file is as it was then, under its name; FileNotFoundError if it was not there."""
        other = SimDisk()
        other.root = backup
        content = other.read(path)
        directory, name = self._parent(path)
        inode = Inode()
        inode.cached, inode.durable = bytearray(content), bytearray(content)
        directory.change({name: inode})
        directory.sync()

    # ---- paths

    def _walk(self, path: str) -> Directory:
        node: Inode | Directory = self.root
        for name in path.strip("/").split("/"):
            if not name:
                continue
            if not isinstance(node, Directory) or name not in node.cached:
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
            node = node.cached[name]
        if not isinstance(node, Directory):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        parent, _, name = path.rstrip("/").rpartition("/")
        return self._walk(parent), name

    def _inode(self, path: str) -> Inode:
        directory, name = self._parent(path)
        node = directory.cached.get(name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return node

    # ---- the protocol

    def open(self, path: str, *, create: bool = False) -> SimFile:
        directory, name = self._parent(path)
        if create and name not in directory.cached:
            self.count("create", path)
            directory.change({name: Inode()})
            self.maybe_crash()
        return SimFile(self, path, self._inode(path))

    def read(self, path: str, max_bytes: int = FILE_BYTES_MAX) -> bytes:
        self.count("read", path)
        inode = self._inode(path)
        check_size(path, len(inode.cached), max_bytes)
        return bytes(inode.cached)

    def write_atomic(self, path: str, data: Buffer, *, sync_directory: bool = True) -> None:
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.write_at(data, 0)
            file.sync()
        except OSError:
            file.close()
            self.unlink(temporary)
            raise
        file.close()
        self.rename(temporary, path)
        if sync_directory:
            self.sync_dir(path.rpartition("/")[0])

    def exists(self, path: str) -> bool:
        try:
            directory, name = self._parent(path)
        except OSError:
            return False
        return not name or name in directory.cached

    def is_dir(self, path: str) -> bool:
        try:
            self._walk(path)
        except OSError:
            return False
        return True

    def is_link(self, path: str) -> bool:
        return False  # it knows none

    def size(self, path: str) -> int:
        return len(self._inode(path).cached)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._inode(path).modified_ms = modified_ms

    def list(self, directory: str) -> list[str]:
        return sorted(self._walk(directory).cached)

    def mkdir(self, path: str) -> bool:
        parent, _, name = path.rstrip("/").rpartition("/")
        if parent and not self.exists(parent):
            self.mkdir(parent)
        directory = self._walk(parent)
        if name in directory.cached:
            self._walk(path)
            return False
        self.count("mkdir", path)
        directory.change({name: Directory()})
        self.maybe_crash()
        return True

    def rename(self, old: str, new: str) -> None:
        source, old_name = self._parent(old)
        target, new_name = self._parent(new)
        if old_name not in source.cached:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        assert source is target, "logs rename within one directory only"
        self.count("rename", old)
        source.change({old_name: None, new_name: source.cached[old_name]})
        self.maybe_crash()

    def unlink(self, path: str) -> None:
        directory, name = self._parent(path)
        if name in directory.cached:
            self.count("unlink", path)
            directory.change({name: None})
            self.maybe_crash()

    def rmdir(self, path: str) -> None:
        directory, name = self._parent(path)
        node = directory.cached.get(name)
        if node is None:
            return
        assert isinstance(node, Directory)
        if node.cached:
            raise OSError(errno.ENOTEMPTY, "directory not empty", path)
        self.count("rmdir", path)
        directory.change({name: None})
        self.maybe_crash()

    def sync_dir(self, path: str) -> None:
        directory = self._walk(path)
        self.count("sync_dir", path)
        self.maybe_crash()
        directory.sync()

    def free_bytes(self, directory: str) -> int:
        return self.free

    def lock(self, path: str) -> SimLock:
        if path in self.locks:
            raise LogDirLockedError(f"{path} is in use")
        self.open(path, create=True).close()
        self.locks.add(path)
        return SimLock(self, path)
