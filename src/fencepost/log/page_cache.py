"""Reads that do not wait for the disk: what the page cache has, or word of what it lacks.

Theory of operation
-------------------
A read of what is in the page cache is a copy; of anything else, it waits for the disk, and all
other work of the thread waits with it. Linux can be asked for the copy alone (`preadv2` with
RWF_NOWAIT). Within `PageCache` as a context manager every read of a file does that, and raises
NotCachedError where it would wait. Nothing has happened then: have the range read on another thread
(`broker.storage.cold_reads`) and do the same again.

Only reads of contents are meant. To open a file is to look its name up, which the kernel seldom
forgets of a directory that is in use; Linux cannot be asked not to wait for that.

The compiled `_page_cache` makes that call where it was built, `os.preadv` elsewhere.

Where there is no such call, or the file system does not know the flag (most of those over a
network), reads wait as they do elsewhere. A line in the log says so, once for each log directory.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from threading import get_ident
from typing import Any, Final

from fencepost.extensions import load

log = logging.getLogger(__name__)

COMPILED_INTERFACE = 1

_compiled: Any
_compiled, why_python = load("fencepost.log._page_cache", COMPILED_INTERFACE)

_HAS_CALL: Final = hasattr(os, "preadv") and hasattr(os, "RWF_NOWAIT")
_UNKNOWN_FLAG: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
_NO_THREAD: Final = 0


class NotCachedError(Exception):
    """`size_bytes` of a file from `position` on would have to be read from the disk."""

    def __init__(self, path: str, position: int, size_bytes: int) -> None:
        super().__init__(f"{path}: {size_bytes} bytes from {position} on are not cached")
        self.path = path
        self.position = position
        self.size_bytes = size_bytes

    @property
    def log_dir(self) -> str:
        """The log directory that the file is in, which is one of a partition."""
        return log_dir_of(self.path)


class PageCache:
    """What one disk's files are read from without waiting, while a thread is in its context.

    One thread at a time, and not twice: the event loop's.
    """

    def __init__(self) -> None:
        self.thread = _NO_THREAD
        """The thread whose reads must not wait, as `get_ident` says it; 0 for none."""
        self._unsupported: set[str] = set()

    def __enter__(self) -> None:
        assert self.thread == _NO_THREAD, "one thread at a time"
        self.thread = get_ident()

    def __exit__(self, *_: object) -> None:
        self.thread = _NO_THREAD

    def read(
        self, path: str, descriptor: int, size: int, position: int
    ) -> bytes | bytearray | None:
        """As many bytes of an open file as `File.read_at` gives; None where Linux cannot say.

        NotCachedError, OSError.
        """
        if not _HAS_CALL or (self._unsupported and log_dir_of(path) in self._unsupported):
            return None
        try:
            data = read_cached(descriptor, size, position)
        except BlockingIOError:
            data = b""
        except OSError as error:
            if error.errno not in _UNKNOWN_FLAG:
                raise
            self._unsupported.add(log_dir_of(path))
            log.info(
                "reads from the disk of %s may delay other clients: its file system does not"
                " say what is in the page cache",
                log_dir_of(path),
            )
            return None
        if len(data) < size:
            cached_to = position + len(data)
            missing = min(position + size, os.fstat(descriptor).st_size) - cached_to
            if missing > 0:
                raise NotCachedError(path, cached_to, missing)
        return data

    def read_all(
        self, path: str, descriptor: int, size: int, position: int
    ) -> bytes | bytearray | None:
        """All of a range of an open file; None if not all of it is in the page cache, if the kernel
        cannot tell, or if it cannot be read: a read in another way raises then."""
        if not _HAS_CALL or (self._unsupported and log_dir_of(path) in self._unsupported):
            return None
        try:
            data = read_cached(descriptor, size, position)
        except OSError:
            return None
        return data if len(data) == size else None


def _read_by_python(descriptor: int, size: int, position: int) -> bytearray:
    """See `_page_cache.read_cached`."""
    if size < 0 or position < 0:  # the call takes -1 for wherever the descriptor stands
        raise ValueError(f"{size} bytes from {position} on cannot be read")
    data = bytearray(size)
    count = os.preadv(descriptor, [data], position, os.RWF_NOWAIT)
    if count < size:
        del data[count:]
    return data


read_cached: Callable[[int, int, int], bytes | bytearray]
"""Reads what the page cache has of an open file: (descriptor, size, position)."""

read_cached = _read_by_python if _compiled is None else _compiled.read_cached


def log_dir_of(path: str) -> str:
    """The log directory that a partition's file is in."""
    return path.rsplit("/", 2)[0]
