"""Group commit: logs made durable by a few threads, and the bookkeeping around it.

Theory of operation
-------------------
After an append `request` asks for a flush. Requests of one turn of the event loop become one flush
per log; what is appended while a log is being flushed is covered by its next flush. So a flush
serves as many waiting requests as arrived meanwhile, and no log is flushed twice at once. Different
logs are flushed at the same time: file systems commit what is asked for together together, so
sixteen files take a fraction of the time they take one after the other.

Every log directory has a lane, with a queue and threads of its own: a disk that is slow, or hangs,
holds up the partitions that it has and no others. Two kinds of threads do the work:

* A flush that only has to sync open files, as nearly all do, goes to threads in C
  (`fencepost.log.sync_threads`), `SYNC_THREADS` of them in a lane. They take no interpreter lock,
  and wake the loop once for all flushes that end together.
* Every other flush (of a log that is new, has another epoch, was rolled), and every one where the
  compiled module is missing, is run whole by threads in Python, `FLUSH_THREADS` of them in a lane.

Flushes of a lane go in waves: what becomes dirty while its threads in C sync waits until all of
them have. So more appends share a flush, and more answers a turn of the loop, and one that waits
loses little: file systems have a sync wait for the one before. That holds for disks that are quick;
on one that takes more than `WAVES_UP_TO_US` a log waits for its own flush only, since there is time
for everything but for waiting. No flush waits for those that threads in Python do, nor for quiet
ones.

Handing a flush to a thread and getting its result costs two thread switches. When a single log is
dirty, a single append waits, no flush runs and its disk has lately been quick, the flush is done on
the spot instead: no other request could use the time. `INLINE_AT_MOST_US` bounds what the loop may
lose.

A flush that fails is reported once per log and never tried again: after a failed fsync the kernel
may have dropped the dirty pages and a second call would lie (the lesson of "fsyncgate").

With `before_ack=False` (Kafka's own behaviour) an append counts as durable as soon as it is in the
page cache. Logs are then flushed when `flush_quietly` is called, in the background, and when a
topic's `flush.messages` says so: that append, and what is appended while its flush is waited for,
counts when it is flushed, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Protocol

from fencepost.broker.loop.distribution import Distribution
from fencepost.log.sync_threads import SyncThreads, new_sync_threads

log = logging.getLogger(__name__)

FLUSH_THREADS = 4
"""In Python, for each log directory."""
SYNC_THREADS = 16
"""In C, likewise."""
INLINE_AT_MOST_US = 1_000
"""The loop is blocked by a flush only while flushes of that directory take less, on average."""

WAVES_UP_TO_US = 5_000
"""Flushes of a directory wait for those under way while these take less, on average."""


class FlushableLog(Protocol):
    """What the flusher needs of a log; see `fencepost.log.partition_log.PartitionLog`."""

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        ...

    @property
    def flush_is_due(self) -> bool:
        """Whether the topic's configs want a flush now (`flush.messages`)."""
        ...

    @property
    def log_dir(self) -> str:
        """The log directory that it is in."""
        ...

    def begin_flush(self) -> Any:
        """A job covering everything appended so far: see `fencepost.log.flush.FlushJob`."""
        ...

    def finish_flush(self, job: Any) -> None:
        """The job ran: move the recovery point. On the loop's thread."""
        ...


class _Lane:
    """The logs of one log directory, which may wait for each other and for no others."""

    __slots__ = ("average_us", "number", "queue", "syncing", "threads", "waiting")

    def __init__(self, number: int) -> None:
        self.number = number
        self.average_us = 0.0
        """How long flushes took lately; 0 before there was one."""
        self.queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self.threads: list[threading.Thread] = []
        self.syncing = 0
        """Flushes under way in threads in C, but for quiet ones."""
        self.waiting = 0
        """Flushes that its threads in Python have to do, or do."""

    @property
    def has_wave(self) -> bool:
        """Whether the next flush waits for those under way; see the module."""
        return self.syncing > 0 and self.average_us < WAVES_UP_TO_US


class _Work:
    """One log's part of a flush."""

    __slots__ = ("error", "forgotten", "job", "key", "lane", "log", "quiet", "took_us")

    def __init__(
        self, key: Hashable, log: FlushableLog, lane: _Lane, job: Any, quiet: bool
    ) -> None:
        self.key = key
        self.log = log
        self.lane = lane
        self.job = job
        self.quiet = quiet
        self.error: str | None = None
        self.forgotten = False
        self.took_us = 0.0

    def run(self) -> None:
        """Reach stable storage; on whichever thread."""
        began_ns = time.perf_counter_ns()
        try:
            self.job.run()
        except (OSError, ValueError) as error:  # ValueError: the file was closed under us
            self.error = str(error) or repr(error)
        self.took_us = (time.perf_counter_ns() - began_ns) / 1_000

    def settle(self, error: int, took_us: float) -> None:
        """Threads in C have done it, with this errno or 0."""
        self.took_us = took_us
        try:
            self.job.settle(error)
        except OSError as failure:
            self.error = str(failure)


class Flusher:
    """Makes logs durable and tells `on_persisted(key, end_offset)` or `on_failed(key, reason)`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_persisted: Callable[[Hashable, int], None],
        on_failed: Callable[[Hashable, str], None],
        now_ms: Callable[[], int],
        *,
        before_ack: bool = True,
    ) -> None:
        self._loop = loop
        self._on_persisted = on_persisted
        self._on_failed = on_failed
        self._now_ms = now_ms
        self._before_ack = before_ack
        self._unflushed_since: dict[Hashable, int] = {}
        self._dirty: dict[Hashable, tuple[FlushableLog, bool]] = {}
        self._in_flight: dict[Hashable, _Work] = {}
        self._requests = 0
        self._scheduled = False
        self.flush_ms = Distribution()
        """How long flushes took, in milliseconds."""
        self._lanes: dict[str, _Lane] = {}
        self._done: deque[_Work] = deque()
        self._told = False
        self._sync_threads: SyncThreads | None = None
        self._is_native = True
        """Whether there may be threads in C; they are made when there is something to do."""
        self._handed_over: dict[int, _Work] = {}
        self._last_number = 0
        self._closed = False

    def request(self, key: Hashable, target: FlushableLog, *, always: bool = False) -> None:
        """Make everything appended to `target` durable soon and report it.

        With `always` also where appends count as durable without (`before_ack` False).
        """
        if not self._before_ack and not always and not self._must_wait(key, target):
            if key not in self._unflushed_since:
                self._unflushed_since[key] = self._now_ms()
            self._on_persisted(key, target.end_offset)
            return
        self._requests += 1
        self._dirty[key] = (target, False)
        self._schedule(target.log_dir)

    def _must_wait(self, key: Hashable, target: FlushableLog) -> bool:
        """Whether an append waits for a flush although the page cache would do."""
        if target.flush_is_due:
            return True
        dirty, work = self._dirty.get(key), self._in_flight.get(key)
        return (dirty is not None and not dirty[1]) or (work is not None and not work.quiet)

    def flush_quietly(self, key: Hashable, target: FlushableLog) -> None:
        """Flush in the background; only a failure is reported."""
        self._requests += 2  # never worth blocking the loop for
        self._dirty.setdefault(key, (target, True))
        self._schedule(target.log_dir)

    def unflushed_since_ms(self, key: Hashable) -> int | None:
        """When the first append was made, on the monotonic clock, that counts as durable and that
        no flush has begun to cover; None if there is none."""
        return self._unflushed_since.get(key)

    def forget(self, key: Hashable) -> None:
        """The log is closed or gone: nothing more is done for it or reported about it."""
        self._unflushed_since.pop(key, None)
        self._dirty.pop(key, None)
        work = self._in_flight.get(key)
        if work is not None:
            work.forgotten = True

    def close(self) -> None:
        """Stop the threads, after the flushes that are being done; nothing is reported any more."""
        self._closed = True
        self._dirty.clear()
        if self._sync_threads is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._sync_threads.fileno())
            self._sync_threads.stop()
            self._settle(self._sync_threads)
        for lane in self._lanes.values():
            for _ in lane.threads:
                lane.queue.put(None)
        for lane in self._lanes.values():
            for thread in lane.threads:
                thread.join()
            lane.threads.clear()

    def _schedule(self, log_dir: str) -> None:
        self._lane(log_dir)  # now, so that `_start` can tell whether every lane has a wave
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._loop.call_soon(self._start)

    def _start(self) -> None:
        """Flush every dirty log that neither is being flushed already nor waits for a wave."""
        self._scheduled = False
        if self._closed or not self._dirty:
            return
        waves = [lane for lane in self._lanes.values() if lane.has_wave]
        if waves and len(waves) == len(self._lanes):
            return
        requests, self._requests = self._requests, 0
        dirty, self._dirty = self._dirty, {}
        alone = requests == 1 and not self._in_flight
        for key, (target, quiet) in dirty.items():
            lane = self._lane(target.log_dir)
            if key in self._in_flight or lane in waves:
                self._dirty[key] = (target, quiet)
                continue
            self._unflushed_since.pop(key, None)
            try:
                work = _Work(key, target, lane, target.begin_flush(), quiet)
            except OSError as error:  # the log has failed before
                self._on_failed(key, str(error))
                continue
            if alone and 0 < lane.average_us < INLINE_AT_MOST_US:
                work.run()
                self._finish(work)
                continue
            self._in_flight[key] = work
            if not self._hand_over(work):
                self._queue(work)

    def _lane(self, log_dir: str) -> _Lane:
        lane = self._lanes.get(log_dir)
        if lane is None:
            lane = self._lanes[log_dir] = _Lane(len(self._lanes))
        return lane

    # -- threads in C ------------------------------------------------------------------------

    def _hand_over(self, work: _Work) -> bool:
        """Have threads in C do it, if there are any and it is for them; whether they will."""
        if self._sync_threads is None and not self._start_sync_threads():
            return False
        assert self._sync_threads is not None, "they have just been made"
        number = self._last_number + 1
        if not work.job.hand_over(self._sync_threads, work.lane.number, number):
            return False
        self._last_number = number
        self._handed_over[number] = work
        if not work.quiet:
            work.lane.syncing += 1
        return True

    def _start_sync_threads(self) -> bool:
        if not self._is_native:
            return False
        try:
            self._sync_threads = new_sync_threads(SYNC_THREADS)
        except OSError as error:  # too many open files: those in Python need none
            log.warning("flushing in Python threads, not in C threads: %s", error)
        if self._sync_threads is None:
            self._is_native = False
            return False
        self._loop.add_reader(self._sync_threads.fileno(), self._collect_synced, self._sync_threads)
        return True

    def _collect_synced(self, threads: SyncThreads) -> None:
        """Finish what the threads in C have done."""
        for work in self._settle(threads):
            self._in_flight.pop(work.key, None)
            if not self._closed:
                self._finish(work)
        if self._dirty:
            self._start()

    def _settle(self, threads: SyncThreads) -> list[_Work]:
        """Note the outcome of what is done, of all of it before anything comes of any of it.

        What follows a flush may close the file of another, which waits until that is settled.
        """
        settled = []
        for number, error, took_us in threads.take():
            work = self._handed_over.pop(number)
            work.settle(error, took_us)
            if not work.quiet:
                work.lane.syncing -= 1
            settled.append(work)
        return settled

    # -- threads in Python -------------------------------------------------------------------

    def _queue(self, work: _Work) -> None:
        """Have a thread of the lane run it."""
        lane = work.lane
        lane.waiting += 1
        lane.queue.put(work)
        if len(lane.threads) < min(FLUSH_THREADS, lane.waiting):
            thread = threading.Thread(
                target=self._serve, args=(lane,), name="fencepost-flush", daemon=True
            )
            lane.threads.append(thread)
            thread.start()

    def _serve(self, lane: _Lane) -> None:
        """What a thread does. Several flushes that end together wake the loop once."""
        while (work := lane.queue.get()) is not None:
            work.run()
            self._done.append(work)
            if not self._told:
                self._told = True
                try:
                    self._loop.call_soon_threadsafe(self._collect)
                except RuntimeError:  # the loop is closed: the result is not needed
                    return

    def _collect(self) -> None:
        """Finish what the threads have done; `_told` first, or a flush could be missed."""
        self._told = False
        while self._done:
            work = self._done.popleft()
            work.lane.waiting -= 1
            self._in_flight.pop(work.key, None)
            if not self._closed:
                self._finish(work)
        if self._dirty:
            self._start()

    # -- what comes of it --------------------------------------------------------------------

    def _finish(self, work: _Work) -> None:
        work.lane.average_us += (work.took_us - work.lane.average_us) / 8
        self.flush_ms.add(work.took_us / 1_000)
        self.flush_ms.count_if_many()
        if work.forgotten:
            return
        if work.error is None:
            try:
                work.log.finish_flush(work.job)
            except OSError as error:
                work.error = str(error)
        if work.error is not None:
            self._on_failed(work.key, work.error)
        elif not work.quiet:
            self._on_persisted(work.key, work.job.end_offset)
