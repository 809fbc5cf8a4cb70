"""A disk in memory that forgets, tears and lies exactly as a real one may, drawn from one seed.

It is `fencepost.log.disk.Disk`, and the real log runs on it. Draws come from a seed or from a
function `draw(n)` that gives a number in [0, n), where 0 always is the kindest end.
What it stores, and what a power loss leaves of it, is in `disk_contents.py`.

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
from collections.abc import Callable

from fencepost.log.disk import FILE_BYTES_MAX, Buffer, ClosedFileError, check_size
from fencepost.log.errors import LogDirLockedError
from fencepost.sim.disk_contents import Directory, Inode, PowerLoss, as_durable, lose_all_but


class Crash(BaseException):
    """The machine stops here. Not an Exception: no error handling may get in its way."""


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

    def at_next(self, operation: str, name: str, act: Callable[[str], OSError | None]) -> None:
        """At the next such operation on a file with `name` in its path, and not again, raise the
        error that `act` returns for the path."""

        def fault(done: str, path: str, count: int) -> OSError | None:
            if done != operation or name not in path:
                return None
            self.fault = None
            return act(path)

        self.fault = fault

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
        """The machine is gone, and what is left is known (`lose_all_but`)."""
        lose_all_but(self.root, changes, torn_bytes)
        self.process_death()

    def power_loss(self) -> None:
        """The machine is gone: draw what of the unsynced changes survives."""
        PowerLoss(self._draw_below).strike(self.root)
        self.process_death()

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
        return as_durable(self.root)

    def restore(self, backup: Directory) -> None:
        """Everything is as it was when `backup` was taken; the machine has been off."""
        self.root = as_durable(backup)
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
