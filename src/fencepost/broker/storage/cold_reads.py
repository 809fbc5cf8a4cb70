"""Threads that bring what a client reads from the disk into the page cache.

The event loop reads log files without waiting (`log.page_cache`), and finds so which range of which
file is not cached. A thread of the file's log directory reads that range here and drops what it
read: it is cached now, and the event loop reads it again. So everything that is decided about a log
stays with the event loop, and a thread knows a descriptor and a range. A disk that is slow, or
hangs, holds up its own directory's threads alone.

Ranges of a directory that are wanted at the same time are bounded by `RANGES_MAX`, and one that
several clients want is read once. Memory: `CHUNK_BYTES` for a thread that reads.

The threads are daemons: a node that stops does not wait for a disk.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from itertools import count
from queue import SimpleQueue
from typing import Final, NamedTuple, TypeVar

from fencepost.log.descriptors import Descriptors
from fencepost.log.disk import open_regular
from fencepost.log.page_cache import NotCachedError, PageCache
from fencepost.runtime.cooperative import Pieces, first_done, result_of, without_frames

T = TypeVar("T")

THREADS_PER_DIR: Final = 4
"""Disks do several reads at a time faster than one after the other."""
RANGES_MAX: Final = 256
CHUNK_BYTES: Final = 256 * 1024
COLD_TRIES: Final = 8
"""How often a partition's records are brought in, the index and what it leads to one after the
other, before they are read whatever that takes: under so much pressure pages do not stay."""

Range = tuple[str, int]
"""A file's path, and where to begin."""


class _Wanted(NamedTuple):
    """A range that is to be read."""

    path: str
    position: int
    size_bytes: int
    done: Future[None]


class ColdReads:
    """The reading threads of a node, by log directory. For the event loop's thread."""

    def __init__(self, page_cache: PageCache, descriptors: Descriptors) -> None:
        self._page_cache = page_cache
        self._descriptors = descriptors
        self._readers: dict[str, _Readers] = {}

    def reading(self, tries: int) -> AbstractContextManager[None]:
        """The context within which reads raise what `begin` takes, when that was begun so often;
        after `COLD_TRIES` of them reads wait."""
        return self._page_cache if tries < COLD_TRIES else contextlib.nullcontext()

    def without_waiting(self) -> AbstractContextManager[object]:
        """The context within which no read waits for a file descriptor."""
        return self._descriptors.without_waiting()

    def read(self, work: Callable[[], T]) -> Pieces[T]:
        """What `work` returns, called as often as it meets what is not in the page cache.

        `work` may have been given up in the middle, so it must not change anything but by its end.
        Raises what it raises, or the OSError of the disk.
        """
        for tries in count():
            try:
                with self.reading(tries):
                    return work()
            except NotCachedError as cold:
                reading = result_of(self.begin(cold))
            yield from reading  # how it has failed, if it has
        raise AssertionError("the last of the tries waits")

    def begin(self, cold: NotCachedError, ahead_bytes: int = 0) -> Future[None]:
        """Have a range read, or `ahead_bytes` from where it begins if that is more.

        Done when it is worth another try, which may meet another range. Its exception is the
        OSError of the disk.
        """
        readers = self._readers.get(cold.log_dir)
        if readers is None:
            readers = self._readers[cold.log_dir] = _Readers(self._descriptors)
        return readers.begin(cold.path, cold.position, max(cold.size_bytes, ahead_bytes))

    def close(self) -> None:
        """Begin nothing more; what is being read ends by itself."""
        for readers in self._readers.values():
            readers.close()


class _Readers:
    """The threads of one log directory."""

    def __init__(self, descriptors: Descriptors) -> None:
        self._descriptors = descriptors
        self._queue: SimpleQueue[_Wanted | None] = SimpleQueue()
        self._wanted: dict[Range, Future[None]] = {}  # the threads take out what is done
        self._threads = 0

    def begin(self, path: str, position: int, size_bytes: int) -> Future[None]:
        """See `ColdReads.begin`."""
        wanted = self._wanted
        known = wanted.get((path, position))
        if known is not None:
            return known
        if len(wanted) >= RANGES_MAX:
            return first_done(list(wanted.values()))
        done: Future[None] = Future()
        wanted[path, position] = done
        self._queue.put(_Wanted(path, position, size_bytes, done))
        if self._threads < min(len(wanted), THREADS_PER_DIR):
            self._threads += 1
            threading.Thread(target=self._serve, name="fencepost-read", daemon=True).start()
        return done

    def close(self) -> None:
        """End the threads."""
        for _ in range(self._threads):
            self._queue.put(None)

    def _serve(self) -> None:
        while (wanted := self._queue.get()) is not None:
            path, position, size_bytes, done = wanted
            failure: OSError | None = None
            try:
                self._read(path, position, size_bytes)
            except FileNotFoundError:  # it has another name now, or is gone: try again
                pass
            except OSError as error:
                failure = without_frames(error)
            del self._wanted[path, position]
            if failure is None:
                done.set_result(None)
            else:
                done.set_exception(failure)
            del wanted, done, failure

    def _read(self, path: str, position: int, left_bytes: int) -> None:
        descriptor = self._descriptors.open(lambda: open_regular(path, os.O_RDONLY))
        try:
            buffer = memoryview(bytearray(min(CHUNK_BYTES, left_bytes)))
            while left_bytes > 0:
                count = os.preadv(descriptor, [buffer[:left_bytes]], position)
                if not count:
                    break
                position += count
                left_bytes -= count
        finally:
            os.close(descriptor)
