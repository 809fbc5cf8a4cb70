"""Log compaction in a node: which log is next, threads that clean, and their way back to the loop.

Theory of operation
-------------------
The event loop owns all logs. Every `log.cleaner.backoff.ms` it looks how dirty the compacted ones
are, some per turn, and gives the dirtiest to a cleaner's thread (`fencepost.log.cleaner`). When
the thread has a copy that is to take the place of segments, it asks the loop to do that and waits;
the renames and syncs that follow are the thread's again, and so is writing down how far the log is
clean. A thread that is done is given the next log at once; after a cleaning that has not got any
further, once `log.cleaner.backoff.ms` have passed, and then the other logs come first.

A log is cleaned by one thread at a time. One that turns out to be damaged is left alone from then
on, with an error in the log; a disk that refuses takes its directory offline, as everywhere.

Cleaning is Python, and holds the interpreter's lock while it works. After every millisecond of work
a thread sleeps for a moment, so that the loop never waits longer than for one batch; besides,
`log.cleaner.io.max.bytes.per.second` bounds what all threads read and write.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from functools import partial
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, Final

from fencepost.batch.errors import BatchError
from fencepost.broker.config.settings import Settings
from fencepost.broker.loop.fault_handler import FaultHandler
from fencepost.broker.loop.ports import AsyncPorts
from fencepost.broker.loop.timers import Timer
from fencepost.log.cleaner.errors import CleaningAbortedError
from fencepost.log.cleaner.plan import Dirt
from fencepost.log.errors import LogError
from fencepost.log.partition_log import PartitionLog
from fencepost.runtime.cooperative import Pieces, without_frames
from fencepost.runtime.replicas import HostedPartition, ReplicaManager

if TYPE_CHECKING:
    from fencepost.log.cleaner.job import Cleaning, Copied
    from fencepost.log.cleaner.offset_map import OffsetMap

log = logging.getLogger(__name__)


IO_BYTES_MIN: Final = 4096
_WORK_S: Final = 0.001
_BREATH_S: Final = 0.0001


class Throttle:
    """Slows threads down to a number of bytes per second, all of them together."""

    def __init__(self, bytes_per_s: float, closing: threading.Event) -> None:
        self.bytes_per_s = bytes_per_s
        self._closing = closing
        self._lock = threading.Lock()
        self._free_at = 0.0
        self._breathed = threading.local()

    def __call__(self, size_bytes: int) -> None:
        """So much was read or written: wait for as long as that may take."""
        now = perf_counter()
        with self._lock:
            self._free_at = max(self._free_at, now) + size_bytes / self.bytes_per_s
            wait_s = self._free_at - now
        if wait_s > _WORK_S:
            self._closing.wait(wait_s)
        elif now - getattr(self._breathed, "at", 0.0) > _WORK_S:
            sleep(_BREATH_S)
            self._breathed.at = perf_counter()


class _Call:
    """Something a thread wants the loop to do, and what came of it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function: Callable[[], Any] | None = function
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Do it, unless it was cancelled. On the loop's thread."""
        with self._lock:
            function, self._function = self._function, None
        if function is None:
            return
        try:
            self._result = function()
        except Exception as error:  # noqa: BLE001 - it is raised again where the result is wanted
            self._error = without_frames(error)
        self._done.set()

    def cancel(self) -> None:
        """Never do it, if it has not been done."""
        with self._lock:
            if self._function is None:
                return
            self._function = None
        self._error = CleaningAbortedError("the node stops")
        self._done.set()

    def wait(self) -> Any:
        """The result, once it is there; raises what was raised."""
        self._done.wait()
        error, self._error = self._error, None
        if error is None:
            return self._result
        try:
            raise error
        finally:
            del error  # its traceback has this frame


class _Work:
    """One log that a thread cleans."""

    def __init__(self, hosted: HostedPartition, cleaning: Cleaning) -> None:
        self.hosted = hosted
        self.cleaning = cleaning
        self.error: Exception | None = None


CLEANER_KEYS: Final = (
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.threads",
)
"""Configs that `Compactor.reconfigure` puts into force."""


class Compactor:
    """Compacts the logs of a node; see the module docstring."""

    def __init__(
        self,
        replicas: ReplicaManager,
        settings: Settings,
        ports: AsyncPorts,
        faults: FaultHandler,
    ) -> None:
        self._replicas = replicas
        self._settings = settings
        self._ports = ports
        self._faults = faults
        self._closing = threading.Event()
        self._throttle = Throttle(1.0, self._closing)
        self._threads_max = self._backoff_ms = self._map_bytes = self._io_bytes = 0
        self._configure()
        self._is_started = False
        self._serving = 0  # threads that were not told to end
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._at_work: set[_Work] = set()
        self._uncleanable: set[PartitionLog] = set()
        self._without_progress: set[PartitionLog] = set()
        self._calls: set[_Call] = set()
        self._calls_lock = threading.Lock()
        self._timer: Timer | None = None
        self._is_looking = False
        self._work = ports.scheduler.lane()
        self.max_dirty_ratio = 0.0
        """Of the dirtiest log, as of the last look."""
        self.cleanings = 0
        """Finished so far."""

    def _configure(self) -> None:
        get = self._settings.get
        self._threads_max = get("log.cleaner.threads") if get("log.cleaner.enable") else 0
        self._backoff_ms = get("log.cleaner.backoff.ms")
        threads = max(1, self._threads_max)
        dedupe_bytes = get("log.cleaner.dedupe.buffer.size") / threads
        self._map_bytes = int(dedupe_bytes * get("log.cleaner.io.buffer.load.factor"))
        # Half of it is for reading, half for writing, as with Kafka.
        self._io_bytes = max(IO_BYTES_MIN, get("log.cleaner.io.buffer.size") // threads // 2)
        self._throttle.bytes_per_s = get("log.cleaner.io.max.bytes.per.second")

    def reconfigure(self) -> None:
        """Go on with the configs that are in force now; what is being cleaned is not disturbed.

        A cleaning that has begun keeps its memory; the throttle and the number of threads count at
        once, as far as threads have nothing to do.
        """
        self._configure()
        while self._serving > self._threads_max:
            self._serving -= 1
            self._queue.put(None)
        if self._is_started and self._threads_max:
            if self._timer is not None:
                self._timer.cancel()
            if not self._is_looking:
                self._arm()

    def start(self) -> None:
        """Look for dirty logs from now on."""
        self._is_started = True
        if not self._threads_max:
            log.warning("log.cleaner.enable or log.cleaner.threads disable compaction")
            return
        self._arm()

    def close(self) -> None:
        """Call off what is being done, and wait until the threads have ended."""
        self._closing.set()
        if self._timer is not None:
            self._timer.cancel()
        for work in self._at_work:
            work.cleaning.abort()
        with self._calls_lock:
            for call in self._calls:
                call.cancel()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        for work in self._at_work:
            work.hosted.log.end_cleaning(work.cleaning)
        self._at_work.clear()

    # -- choosing --------------------------------------------------------------------------

    def _arm(self) -> None:
        is_armed = self._timer is not None and self._timer.armed
        if not is_armed and not self._closing.is_set():
            timers = self._ports.timers
            self._timer = timers.after(max(1, self._backoff_ms), self._look)

    def _look(self) -> None:
        """Find the dirtiest log, in pieces, and have it cleaned; then again."""
        if self._is_looking or self._closing.is_set() or self._faults.failure is not None:
            return
        if len(self._at_work) >= self._threads_max:
            return  # `_finish` looks again
        self._is_looking = True
        waiting = [hosted for hosted in self._replicas.all() if hosted.log.config.is_compacted]
        compacted = {hosted.log for hosted in waiting}
        self._uncleanable &= compacted
        self._without_progress &= compacted
        passed_over = self._uncleanable | {work.hosted.log for work in self._at_work}
        waiting = [
            hosted for hosted in waiting if hosted.log not in passed_over and not hosted.is_moving
        ]
        found: list[tuple[float, HostedPartition]] = []
        self.max_dirty_ratio = 0.0
        self._work.begin(self._measure(waiting, found))

    def _measure(
        self, waiting: list[HostedPartition], found: list[tuple[float, HostedPartition]]
    ) -> Pieces[None]:
        for hosted in waiting:
            if self._closing.is_set():
                return
            dirt = self._guarded(hosted, partial(self._dirt_of, hosted))
            if dirt is not None:
                self.max_dirty_ratio = max(self.max_dirty_ratio, dirt.ratio)
                if dirt.is_due(hosted.log.config.min_cleanable_dirty_ratio):
                    found.append((dirt.ratio, hosted))
            yield None
        self._is_looking = False
        # A log whose last cleaning has changed nothing must not keep the others from their turn.
        found.sort(key=lambda item: (item[1].log in self._without_progress, -item[0]))
        free = self._threads_max - len(self._at_work)
        for _, hosted in found[:free]:
            self._begin(hosted)
        if len(self._at_work) < self._threads_max:
            self._arm()

    def _is_here(self, hosted: HostedPartition) -> bool:
        return self._replicas.get(hosted.topic, hosted.index) is hosted

    def _dirt_of(self, hosted: HostedPartition) -> Dirt | None:
        if not self._is_here(hosted):
            return None
        cleaned_offset = hosted.data_dir.logs.cleaned_offset(hosted.log)
        return hosted.log.measure_dirt(
            cleaned_offset, hosted.machine.high_watermark, self._ports.wall_ms()
        )

    def _begin(self, hosted: HostedPartition) -> None:
        def begin() -> Cleaning | None:
            dirt = self._dirt_of(hosted)  # it was some turns ago that it was looked at
            if dirt is None or not dirt.cleanable_bytes:
                return None
            return hosted.log.begin_cleaning(dirt, self._ports.wall_ms())

        cleaning = self._guarded(hosted, begin)
        if cleaning is None:
            return
        work = _Work(hosted, cleaning)
        self._at_work.add(work)
        self._queue.put(work)
        if self._serving < len(self._at_work):
            name = f"fencepost-cleaner-{self._serving}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            self._threads = [one for one in self._threads if one.is_alive()]
            self._threads.append(thread)
            self._serving += 1
            thread.start()

    def _guarded(self, hosted: HostedPartition, function: Callable[[], Any]) -> Any:
        """What the function gives; None, and what has to follow, if the log or disk refuses."""
        try:
            return function()
        except OSError as error:
            self._replicas.storage_failed(hosted, f"compaction of {hosted.key}: {error}", error)
        except (LogError, BatchError) as error:
            self._give_up(hosted, error)
        return None

    def _give_up(self, hosted: HostedPartition, error: Exception) -> None:
        log.error("cannot compact %s; leaving it unchanged: %s", hosted.key, error)
        self._uncleanable.add(hosted.log)

    # -- the threads -----------------------------------------------------------------------

    def _serve(self) -> None:
        """What a thread does."""
        from fencepost.log.cleaner.offset_map import OffsetMap  # there is something to clean

        while (work := self._queue.get()) is not None:
            try:
                self._clean(work, OffsetMap(self._map_bytes))
            except (LogError, BatchError, OSError) as error:
                work.error = without_frames(error)  # they have the offset map, too
            except Exception as error:
                log.exception("compacting %s failed", work.hosted.key)
                work.error = without_frames(error)
            try:
                self._ports.loop.call_soon_threadsafe(self._finish, work)
            except RuntimeError:  # the loop is closed: the result is not needed
                return

    def _clean(self, work: _Work, offsets: OffsetMap) -> None:
        hosted, cleaning = work.hosted, work.cleaning

        def put_in_place(copied: Copied) -> None:
            swap = self._on_loop(lambda: hosted.log.begin_swap(cleaning, copied))
            swap.run()
            self._on_loop(lambda: hosted.log.finish_swap(swap))

        cleaning.run(offsets, put_in_place, io_bytes=self._io_bytes, pause=self._throttle)
        hosted.data_dir.logs.note_cleaned(hosted.log, cleaning)

    def _on_loop(self, function: Callable[[], Any]) -> Any:
        """Have the loop call the function; what it gives or raises. Any thread but the loop's."""
        call = _Call(function)
        with self._calls_lock:
            if self._closing.is_set():
                call.cancel()
            self._calls.add(call)
        try:
            self._ports.loop.call_soon_threadsafe(call.run)
            return call.wait()
        finally:
            with self._calls_lock:
                self._calls.discard(call)

    def _finish(self, work: _Work) -> None:
        """A thread is done with a log. On the loop's thread."""
        if self._closing.is_set():
            return
        self._at_work.discard(work)
        hosted, cleaning, error = work.hosted, work.cleaning, work.error
        hosted.log.end_cleaning(cleaning)
        if error is None:
            self.cleanings += 1
            log.info("compacted %s: %s", hosted.key, cleaning.stats)
            without_key = cleaning.stats.records_without_key
            if without_key:
                log.warning(
                    "compaction of %s removed %d records without a key", hosted.key, without_key
                )
            if cleaning.has_progressed:
                self._without_progress.discard(hosted.log)
                self._look()
                return
            self._without_progress.add(hosted.log)
        elif isinstance(error, CleaningAbortedError):
            log.info("aborted the compaction of %s: %s", hosted.key, error)
        elif isinstance(error, OSError):
            self._replicas.storage_failed(hosted, f"compaction of {hosted.key}: {error}", error)
        else:
            self._give_up(hosted, error)
        if not self._is_looking:
            self._arm()
