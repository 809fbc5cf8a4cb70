"""Group commit: one thread that makes logs durable, and the bookkeeping around it.

Theory of operation
-------------------
Whoever appended asks with `request`. Requests of one turn of the event loop become one flush; what
is appended while a flush runs is covered by the next one. So a flush serves as many waiting
requests as arrived meanwhile, and the disk is never asked twice at once.

Handing a flush to a thread and hearing back costs two thread switches. When a single log is dirty,
a single append waits and the disk has lately been quick, the flush is done on the spot instead:
nobody else is there who could use the time. `INLINE_AT_MOST_US` bounds what the loop may lose.

A flush that fails is reported once per log and never tried again: after a failed fsync the kernel
may have dropped the dirty pages and a second call would lie (the lesson of "fsyncgate").

With `before_ack=False` (Kafka's own behaviour) an append counts as durable as soon as it is in the
page cache; logs are then flushed only when `flush_quietly` is called, in the background.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Protocol

log = logging.getLogger(__name__)

INLINE_AT_MOST_US = 1_000
"""The loop is blocked by a flush only while flushes take less than this, on average."""


class FlushableLog(Protocol):
    """What the flusher needs of a log; see `fencepost.log.partition_log.PartitionLog`."""

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        ...

    def begin_flush(self) -> Any:
        """A job covering everything appended so far, with `end_offset` and `run()`."""
        ...

    def finish_flush(self, job: Any) -> None:
        """The job ran: move the recovery point. On the loop's thread."""
        ...


class _Work:
    """One log's part of a flush."""

    __slots__ = ("error", "forgotten", "job", "key", "log", "quiet")

    def __init__(self, key: Hashable, log: FlushableLog, job: Any, quiet: bool) -> None:
        self.key = key
        self.log = log
        self.job = job
        self.quiet = quiet
        self.error: str | None = None
        self.forgotten = False

    def run(self) -> None:
        """Reach stable storage; on whichever thread."""
        try:
            self.job.run()
        except (OSError, ValueError) as error:  # ValueError: the file was closed under us
            self.error = str(error) or repr(error)


class Flusher:
    """Makes logs durable and tells `on_persisted(key, end_offset)` or `on_failed(key, reason)`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_persisted: Callable[[Hashable, int], None],
        on_failed: Callable[[Hashable, str], None],
        *,
        before_ack: bool = True,
    ) -> None:
        self._loop = loop
        self._on_persisted = on_persisted
        self._on_failed = on_failed
        self._before_ack = before_ack
        self._dirty: dict[Hashable, tuple[FlushableLog, bool]] = {}
        self._requests = 0
        self._running: list[_Work] = []
        self._scheduled = False
        self._average_us = 0.0
        self._queue: queue.SimpleQueue[list[_Work] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def request(self, key: Hashable, target: FlushableLog) -> None:
        """Make everything appended to `target` durable soon and report it."""
        if not self._before_ack:
            self._on_persisted(key, target.end_offset)
            return
        self._requests += 1
        self._dirty[key] = (target, False)
        self._schedule()

    def flush_quietly(self, key: Hashable, target: FlushableLog) -> None:
        """Flush in the background; only a failure is reported."""
        self._requests += 2  # never worth blocking the loop for
        self._dirty.setdefault(key, (target, True))
        self._schedule()

    def forget(self, key: Hashable) -> None:
        """The log is closed or gone: nothing more is done for it or reported about it."""
        self._dirty.pop(key, None)
        for work in self._running:
            if work.key == key:
                work.forgotten = True

    def close(self) -> None:
        """Stop the thread, after the flush that is being done."""
        self._closed = True
        self._dirty.clear()
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _schedule(self) -> None:
        if not self._running and not self._scheduled and not self._closed:
            self._scheduled = True
            self._loop.call_soon(self._start)

    def _start(self) -> None:
        self._scheduled = False
        if self._closed or self._running or not self._dirty:
            return
        dirty, self._dirty = self._dirty, {}
        requests, self._requests = self._requests, 0
        works = [
            _Work(key, target, target.begin_flush(), quiet)
            for key, (target, quiet) in dirty.items()
        ]
        if requests == 1 and 0 < self._average_us < INLINE_AT_MOST_US:
            self._finish(works, self._run(works))
            return
        self._running = works
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="fencepost-flush", daemon=True)
            self._thread.start()
        self._queue.put(works)

    @staticmethod
    def _run(works: list[_Work]) -> float:
        began_ns = time.perf_counter_ns()
        for work in works:
            work.run()
        return (time.perf_counter_ns() - began_ns) / 1_000

    def _serve(self) -> None:
        while (works := self._queue.get()) is not None:
            took_us = self._run(works)
            try:
                self._loop.call_soon_threadsafe(self._finished, works, took_us)
            except RuntimeError:  # the loop is closed: nobody is left to be told
                return

    def _finished(self, works: list[_Work], took_us: float) -> None:
        self._running = []
        self._finish(works, took_us)
        if self._dirty:
            self._schedule()

    def _finish(self, works: list[_Work], took_us: float) -> None:
        per_log_us = took_us / len(works)
        self._average_us += (per_log_us - self._average_us) / 8 if self._average_us else per_log_us
        for work in works:
            if work.forgotten:
                continue
            if work.error is not None:
                self._on_failed(work.key, work.error)
                continue
            work.log.finish_flush(work.job)
            if not work.quiet:
                self._on_persisted(work.key, work.job.end_offset)
