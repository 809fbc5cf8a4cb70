"""The disk as logs see it: a protocol that the operating system and a simulator both fulfil.

Theory of operation
-------------------
Logs never touch `os` themselves. What a crash may do to them follows from what they asked for, so
the protocol is small and says for each operation what it promises:

* `File.write_at` and `File.truncate` reach the page cache: they survive the process, not the
  machine. After `File.sync` returns, everything written to the file before it began survives both.
  Of what was not synced anything may survive, torn, and the size without the bytes: within the last
  block of the file, bytes that an earlier crash had taken away can then come back.
* `open(create=True)`, `rename`, `unlink`, `mkdir` change a directory. They survive the machine only
  after `sync_dir` of that directory, and without it may take effect in any order or not at all.
* `write_atomic` leaves either the old content or the whole new one, whatever happens, and with
  `sync_directory` the new one is durable when it returns.

`File.sync` may run in another thread while the owner writes to the same file; everything else is
for one thread at a time. A file that is closed while a sync runs waits for the sync.

A thread that shares its time with others can have reads raise NotCachedError where they would wait
for the device (`page_cache`).

Errors of the disk are `OSError`. A directory or a pipe where a file should be is one, too; opening
a pipe does not wait for its other end. After a failed `sync` it is unknown what is on the disk, and
a second `sync` that succeeds proves nothing: the kernel may have dropped the pages. Callers give
the file up.

Paths are plain strings with `/`. Durable does not mean immune: a device that lies about flushing,
or loses what it stored, is caught by checksums, not here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import threading
from functools import partial
from threading import get_ident
from typing import Final, Protocol

from fencepost.log.descriptors import Descriptors
from fencepost.log.errors import CorruptFileError, LogDirLockedError
from fencepost.log.page_cache import PageCache

Buffer = bytes | bytearray | memoryview

FILE_BYTES_MAX: Final = 64 << 20
"""What is read whole is small; checkpoints of a million entries are below this."""
INDEX_BYTES_USUAL: Final = 10 << 20
"""To this size Kafka allocates an index of the segment that grows, whatever is in it."""

_CLOSED: Final = -1
_KEEP_SIZE: Final = 1  # FALLOC_FL_KEEP_SIZE


class ClosedFileError(ValueError):
    """An operation on a file that has been closed."""


class File(Protocol):
    """An open file; see the module docstring for what survives what."""

    def write_at(self, data: Buffer, position: int) -> None:
        """Write all of `data` at `position`. OSError; part of it may then have been written."""
        ...

    def read_at(self, size: int, position: int) -> bytes | bytearray:
        """Up to `size` bytes from `position`; fewer only at the end of the file. OSError.

        NotCachedError where the thread has asked not to wait (`page_cache`).
        """
        ...

    def read_cached(self, size: int, position: int) -> bytes | bytearray | None:
        """All of a range without waiting for the device; None if that cannot be had, whatever the
        reason."""
        ...

    def size(self) -> int:
        """Size in bytes. OSError."""
        ...

    def truncate(self, size: int) -> None:
        """Cut (or, with zeros, extend) to `size` bytes. OSError."""
        ...

    def reserve(self, size: int) -> None:
        """Have the disk reserve room for `size` bytes, where it can; the file stays as it is.

        Cutting the file gives back what is not used. OSError (no room).
        """
        ...

    def sync(self) -> None:
        """Make everything written so far durable. OSError; ClosedFileError."""
        ...

    def close(self) -> None:
        """Let go of the file; harmless when closed already."""
        ...


class Lock(Protocol):
    """A lock on a path that other processes respect."""

    def release(self) -> None:
        """Give the lock back; harmless when done already."""
        ...


class Disk(Protocol):
    """A tree of files; see the module docstring for what survives what. Everything: OSError."""

    sync_threads: int
    """How many threads may usefully sync different files at the same time."""

    def open(self, path: str, *, create: bool = False) -> File:
        """The file for reading and writing; `create` makes it if it is not there."""
        ...

    def read(self, path: str, max_bytes: int = FILE_BYTES_MAX) -> bytes:
        """The whole content; CorruptFileError, and nothing is read, if it is more than that.

        NotCachedError as for `File.read_at`.
        """
        ...

    def write_atomic(self, path: str, data: Buffer, *, sync_directory: bool = True) -> None:
        """Replace the content as one; goes through `path` + `.tmp`."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        ...

    def is_dir(self, path: str) -> bool:
        """Whether there is a directory."""
        ...

    def is_link(self, path: str) -> bool:
        """Whether the name is a symbolic link, whatever it points to."""
        ...

    def size(self, path: str) -> int:
        """Size of a file in bytes."""
        ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written to, in milliseconds since the epoch."""
        ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Make it look as if the file had last been written to then; need not survive a crash."""
        ...

    def list(self, directory: str) -> list[str]:
        """Names in the directory, sorted."""
        ...

    def mkdir(self, path: str) -> bool:
        """Make a directory, and missing ones above it; it may exist. Whether it did not."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory; a file `new` is replaced."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file; it may be gone already."""
        ...

    def rmdir(self, path: str) -> None:
        """Remove an empty directory; it may be gone already."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make the directory's entries durable: what was created, renamed, removed in it."""
        ...

    def free_bytes(self, directory: str) -> int:
        """How many bytes can still be written to files in the directory."""
        ...

    def lock(self, path: str) -> Lock:
        """Lock `path` (made if missing) against other processes. LogDirLockedError."""
        ...


FILE_MODE: Final = 0o640
DIRECTORY_MODE: Final = 0o750
"""Of what is made here: records are for who runs the node, and for the group. What is there keeps
its modes."""


def open_regular(path: str, flags: int) -> int:
    """A descriptor of a regular file. OSError for whatever else there is.

    Opening a pipe would wait for its other end, and reading a device need not end.
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, FILE_MODE)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):  # for which O_NONBLOCK means nothing
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "Not a regular file", path)


def check_size(path: str, size_bytes: int, max_bytes: int) -> None:
    """Refuse a file that is too large to be what it should be. CorruptFileError."""
    if size_bytes > max_bytes:
        raise CorruptFileError(path, f"has {size_bytes} bytes, more than {max_bytes}")


def index_bytes_max(log_bytes: int) -> int:
    """What an index of a segment file of this size may have: an entry is smaller than a batch."""
    return max(INDEX_BYTES_USUAL, log_bytes)


def read_whole(path: str, max_bytes: int) -> bytes:
    """The content of a regular file. CorruptFileError if that is too much, OSError."""
    return read_descriptor(path, open_regular(path, os.O_RDONLY), max_bytes)


def read_descriptor(path: str, descriptor: int, max_bytes: int) -> bytes:
    """The content of an open file, which is closed; likewise."""
    with open(descriptor, "rb") as file:
        check_size(path, os.fstat(file.fileno()).st_size, max_bytes)
        return file.read(max_bytes)


def _sync_descriptor(descriptor: int) -> None:
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


def _reserve(descriptor: int, size: int) -> None:
    """Linux's fallocate, which `os` has only in the form that makes the file longer."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate(descriptor, _KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(size)):
        number = ctypes.get_errno()
        if number not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise OSError(number, os.strerror(number))


def read_from(descriptor: int, size: int, position: int) -> bytes:
    """`size` bytes of an open file; fewer only if it ends before. OSError."""
    data = os.pread(descriptor, size, position)
    while len(data) < size:
        more = os.pread(descriptor, size - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


def sync_and_close(files: list[File]) -> None:
    """Make the contents of open files durable. OSError; none is open any more, either way."""
    try:
        for file in files:
            file.sync()
    finally:
        for file in files:
            file.close()


class Holder(Protocol):
    """A flush that other threads run: it holds a file until they have synced it (`OsFile.hold`)."""

    def wait(self) -> None:
        """Wait until that is done and the file released; any thread."""
        ...


class OsFile:
    """A file of the operating system.

    A flush that has it synced without waiting holds it meanwhile (`hold`). Syncing or closing it
    then waits for the holder first, as it does for a sync by another thread.
    """

    __slots__ = ("_descriptor", "_holder", "_page_cache", "_sync_lock", "path")

    def __init__(self, path: str, descriptor: int, page_cache: PageCache | None = None) -> None:
        self.path = path
        self._descriptor = descriptor
        self._page_cache = page_cache
        self._holder: Holder | None = None
        self._sync_lock = threading.Lock()

    def write_at(self, data: Buffer, position: int) -> None:
        """See `File`."""
        written = os.pwrite(self._descriptor, data, position)
        if written == len(data):
            return
        rest = memoryview(data)[written:]
        while rest:
            position += written
            written = os.pwrite(self._descriptor, rest, position)
            rest = rest[written:]

    def read_at(self, size: int, position: int) -> bytes | bytearray:
        """See `File`."""
        cache = self._page_cache
        if cache is not None and cache.thread == get_ident():
            data = cache.read(self.path, self._descriptor, size, position)
            if data is not None:
                return data
        return read_from(self._descriptor, size, position)

    def read_cached(self, size: int, position: int) -> bytes | bytearray | None:
        """See `File`."""
        cache = self._page_cache
        return (
            None if cache is None else cache.read_all(self.path, self._descriptor, size, position)
        )

    def size(self) -> int:
        """See `File`."""
        return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        """See `File`."""
        os.ftruncate(self._descriptor, size)

    def reserve(self, size: int) -> None:
        """See `File`."""
        _reserve(self._descriptor, size)

    def hold(self, holder: Holder) -> int:
        """The descriptor, which stays open until `release`; -1 if it is closed, or being synced."""
        if not self._sync_lock.acquire(blocking=False):
            return _CLOSED
        if self._descriptor == _CLOSED:
            self._sync_lock.release()
        else:
            self._holder = holder
        return self._descriptor

    def release(self) -> None:
        """The holder needs it no longer; any thread."""
        self._holder = None
        self._sync_lock.release()

    def _wait_for_holder(self) -> None:
        holder = self._holder
        if holder is not None:
            holder.wait()

    def sync(self) -> None:
        """See `File`."""
        self._wait_for_holder()
        with self._sync_lock:
            if self._descriptor == _CLOSED:
                raise ClosedFileError(f"{self.path} is closed")
            _sync_descriptor(self._descriptor)

    def close(self) -> None:
        """See `File`."""
        self._wait_for_holder()
        with self._sync_lock:
            descriptor, self._descriptor = self._descriptor, _CLOSED
            if descriptor != _CLOSED:
                os.close(descriptor)


class OsLock:
    """A record lock, which is what Java's FileLock takes too: a Kafka broker respects it.

    Such locks do not exclude the process that has them, so the paths are noted here as well.
    """

    _held: Final[set[str]] = set()

    def __init__(self, path: str, descriptor: int) -> None:
        """Take the lock on an open file, which is closed if that fails. LogDirLockedError."""
        import fcntl

        self._path = os.path.realpath(path)
        self._descriptor = descriptor
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            from fencepost.log.lock_holder import lock_holder

            pid = lock_holder(descriptor)
            os.close(descriptor)
            whose = f"process {pid}" if pid is not None and pid > 0 else "another process"
            raise LogDirLockedError(f"{path} is in use by {whose}") from error
        self._held.add(self._path)

    @classmethod
    def check_not_ours(cls, path: str) -> None:
        """Refuse a lock that this process has. LogDirLockedError.

        To be asked before the file is opened: closing it would release the lock.
        """
        if os.path.realpath(path) in cls._held:
            raise LogDirLockedError(f"{path} is in use by this process")

    def release(self) -> None:
        """See `Lock`."""
        if self._descriptor != _CLOSED:
            os.close(self._descriptor)
            self._descriptor = _CLOSED
            self._held.discard(self._path)


class OsDisk:
    """The operating system's files.

    What finds no file descriptor waits for one, as `descriptors` says: EMFILE and ENFILE are raised
    only where they were asked for.

    File systems make the syncs of several threads one write to their journal, so many small logs
    are closed in a fraction of the time.
    """

    sync_threads = 16

    def __init__(self, descriptors: Descriptors | None = None) -> None:
        self.descriptors = Descriptors() if descriptors is None else descriptors
        """What a call does that finds no file descriptor."""
        self.page_cache = PageCache()
        """For a thread that is not to wait for reads."""

    def _open(self, path: str, flags: int) -> int:
        return self.descriptors.open(lambda: open_regular(path, flags))

    def open(self, path: str, *, create: bool = False) -> OsFile:
        """See `Disk`."""
        flags = os.O_RDWR | (os.O_CREAT | os.O_NOFOLLOW if create else 0)
        if create:
            # Of a file made just now it need not be asked what it is.
            with contextlib.suppress(FileExistsError):
                made = partial(os.open, path, flags | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
                return OsFile(path, self.descriptors.open(made), self.page_cache)
        return OsFile(path, self._open(path, flags), self.page_cache)

    def read(self, path: str, max_bytes: int = FILE_BYTES_MAX) -> bytes:
        """See `Disk`."""
        descriptor = self._open(path, os.O_RDONLY)
        if self.page_cache.thread != get_ident():
            return read_descriptor(path, descriptor, max_bytes)
        file = OsFile(path, descriptor, self.page_cache)
        try:
            size = file.size()
            check_size(path, size, max_bytes)
            return bytes(file.read_at(size, 0))
        finally:
            file.close()

    def write_atomic(self, path: str, data: Buffer, *, sync_directory: bool = True) -> None:
        """See `Disk`."""
        temporary = path + ".tmp"
        self.unlink(temporary)  # left by a crash, or planted by another user
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        file = OsFile(temporary, self._open(temporary, flags))
        try:
            file.write_at(data, 0)
            file.sync()
        except OSError:
            file.close()
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        file.close()
        os.replace(temporary, path)
        if sync_directory:
            self.sync_dir(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        """See `Disk`."""
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        """See `Disk`."""
        return os.path.isdir(path)

    def is_link(self, path: str) -> bool:
        """See `Disk`."""
        return os.path.islink(path)

    def size(self, path: str) -> int:
        """See `Disk`."""
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """See `Disk`."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """See `Disk`."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def list(self, directory: str) -> list[str]:
        """See `Disk`."""
        return sorted(self.descriptors.open(lambda: os.listdir(directory)))

    def mkdir(self, path: str) -> bool:
        """See `Disk`."""
        try:
            os.mkdir(path, DIRECTORY_MODE)
        except FileNotFoundError:
            os.makedirs(path, DIRECTORY_MODE, exist_ok=True)
        except FileExistsError:
            if not os.path.isdir(path):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None
            return False
        return True

    def rename(self, old: str, new: str) -> None:
        """See `Disk`."""
        os.replace(old, new)

    def unlink(self, path: str) -> None:
        """See `Disk`."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def rmdir(self, path: str) -> None:
        """See `Disk`."""
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(path)

    def sync_dir(self, path: str) -> None:
        """See `Disk`."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = self.descriptors.open(lambda: os.open(path or ".", flags))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self, directory: str) -> int:
        """See `Disk`; what is kept for the superuser is not counted."""
        volume = os.statvfs(directory)
        return volume.f_bavail * volume.f_frsize

    def lock(self, path: str) -> OsLock:
        """See `Disk`."""
        OsLock.check_not_ours(path)
        return OsLock(path, self._open(path, os.O_RDWR | os.O_CREAT))
