"""The one way to do long work without keeping the event loop from other work.

Work that may take long is a generator (`Pieces`): it yields between two pieces, or yields a future
when it has to wait for a thread. What is small is done when `begin` returns.

Theory of operation
-------------------
A node has one `Scheduler`, and each kind of long work has a `Lane` of it: the requests of a
listener, changes of partitions, coordinators that load, housekeeping. One turn of the event loop
takes `TURN_S` and a piece, however much there is to do: the lane whose turn it is works for so long
and goes behind the others that have work, then all connections and timers come first. Within a lane
it is the same: the first work runs until the time is up, and goes to the end. So a hundred clients
with long requests delay other clients as much as one does, share what is left among them, and do
not keep partitions from being opened. What begins is worked on at once, for `FIRST_TURN_S`; all
that begins in one turn of the event loop for `FIRST_TURNS_S`, and what comes later does one piece.

Work for which order matters is given to an `InOrder`, which begins the next when one is done.

Nothing is promised about what happens between two pieces: topics may be deleted, offsets move.

Work handles its own errors. One that escapes is logged with its traceback, and the work is over.

It must not know: the event loop, but for the two calls of `LoopPort`. The simulator makes events of
them, and gives a clock that stands still and turns of no length, so that a turn is one piece.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, InvalidStateError
from time import perf_counter
from typing import Any, Final, Protocol, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

Pieces = Generator["Future[Any] | None", None, T]
"""Work in pieces: yields None between two, or the future of a thread that it waits for."""

FIRST_TURN_S: Final = 0.0005
"""How long work is done at once when it begins, whatever else waits."""
FIRST_TURNS_S: Final = 0.002
"""How long, together, all work that begins before the event loop comes round again."""
TURN_S: Final = 0.001
"""How long work is done before connections and timers come first."""
PIECES_AT_ONCE: Final = 100
"""Pieces of work in order that are done at once when nothing is before it, however long each is."""


def result_of(future: Future[T]) -> Pieces[T]:
    """Wait for a thread's future, and return its result or raise its exception.

    A future keeps its exception, whose traceback keeps the frames that it was raised through, and
    what these refer to: a decompressed batch, a read buffer. So a frame that takes a result must
    give up the future, as must those that have called it, or all of it is a reference cycle, which
    lives until the next collection.
    """
    try:
        yield future
        return future.result()
    finally:
        del future


def first_done(futures: Sequence[Future[None]]) -> Future[None]:
    """Done when any of `futures` is."""
    if len(futures) == 1:
        return futures[0]
    first: Future[None] = Future()

    def settle(_: Future[None]) -> None:
        with contextlib.suppress(InvalidStateError):  # two at a time
            first.set_result(None)

    for future in futures:
        future.add_done_callback(settle)
    return first


def without_frames(error: E) -> E:
    """The error without the tracebacks of it and of its contexts, to be kept.

    For an object that the frames refer to, which would become a reference cycle, and for one that
    outlives the work.
    """
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error


class LoopPort(Protocol):
    """What the scheduler needs of an event loop; asyncio's are one."""

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Call back in a later turn, behind what is ready now."""
        ...

    def call_soon_threadsafe(self, callback: Callable[[], None], /) -> object:
        """The same, called in another thread. RuntimeError if the loop is closed."""
        ...


class _Work:
    """Work under way."""

    __slots__ = ("is_wanted", "on_done", "pieces")

    def __init__(
        self,
        pieces: Pieces[Any],
        on_done: Callable[[], None] | None,
        is_wanted: Callable[[], bool] | None,
    ) -> None:
        self.pieces = pieces
        self.on_done = on_done
        self.is_wanted = is_wanted


class Scheduler:
    """Shares the turns of one event loop among lanes. Both times may be changed at any time."""

    def __init__(
        self,
        loop: LoopPort,
        now_s: Callable[[], float] = perf_counter,
        turn_s: float = TURN_S,
        first_turn_s: float = FIRST_TURN_S,
    ) -> None:
        self.loop = loop
        self.now_s = now_s
        self.turn_s = turn_s
        self.first_turn_s = first_turn_s
        self._ready: deque[Lane] = deque()
        self._is_scheduled = False
        self._begun_s = 0.0
        self._is_new_turn_scheduled = False

    def lane(self) -> Lane:
        """A new lane, with a share of its own."""
        return Lane(self)

    def has_work(self, lane: Lane) -> None:
        """A lane that had nothing to do has something."""
        self._ready.append(lane)
        self._schedule()

    def first_turn_ends_s(self, began_s: float) -> float:
        """Until when work is done at once that begins now."""
        return began_s + min(self.first_turn_s, max(0.0, FIRST_TURNS_S - self._begun_s))

    def has_begun(self, took_s: float) -> None:
        """Work that began was done at once for so long."""
        if took_s > 0:
            self._begun_s += took_s
            if not self._is_new_turn_scheduled:
                self._is_new_turn_scheduled = True
                self.loop.call_soon(self._new_turn)

    def _new_turn(self) -> None:
        self._is_new_turn_scheduled = False
        self._begun_s = 0.0

    def _turn(self) -> None:
        """One lane works for a while; then others come first."""
        self._is_scheduled = False
        lane = self._ready.popleft()
        try:
            lane.work_until(self.now_s() + self.turn_s)
        finally:  # what one fails with is not the trouble of those behind it
            if lane.is_busy:
                self._ready.append(lane)
            self._schedule()

    def _schedule(self) -> None:
        if self._ready and not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon(self._turn)


class Lane:
    """One owner's work; see the module."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._queue: deque[_Work | Callable[[], None]] = deque()
        self._is_working = False

    @property
    def is_busy(self) -> bool:
        """Whether work waits for its turn."""
        return bool(self._queue)

    def beside(self) -> Lane:
        """A share as large as this one, for other work."""
        return self._scheduler.lane()

    def begin(
        self,
        pieces: Pieces[Any],
        on_done: Callable[[], None] | None = None,
        *,
        is_wanted: Callable[[], bool] | None = None,
        at_once: int = 1,
    ) -> bool:
        """Work for a moment, on `at_once` pieces at least; whether it is done.

        If not, it goes on by itself as long as `is_wanted`, and then `on_done` is called.
        """
        scheduler = self._scheduler
        began_s = scheduler.now_s()
        ends_s = scheduler.first_turn_ends_s(began_s)
        is_done = self._advance(_Work(pieces, on_done, is_wanted), ends_s, at_once)
        scheduler.has_begun(scheduler.now_s() - began_s)
        return is_done

    def later(self, callback: Callable[[], None], after: Future[Any] | None = None) -> None:
        """Call back when it is the turn of what comes now, or when `after` is done."""
        if after is None:
            self._put(callback)
        else:
            after.add_done_callback(lambda _: self._wake(callback))

    def work_until(self, ends_s: float) -> None:
        """The scheduler's: work on the first in the queue, and on those behind it in time."""
        self._is_working = True
        try:
            while self._queue:
                work = self._queue.popleft()
                if not isinstance(work, _Work):
                    work()
                elif work.is_wanted is not None and not work.is_wanted():
                    work.pieces.close()
                elif self._advance(work, ends_s, 1) and work.on_done is not None:
                    work.on_done()
                if self._scheduler.now_s() >= ends_s:
                    break
        finally:
            self._is_working = False

    def _advance(self, work: _Work, ends_s: float, pieces: int) -> bool:
        """Work until the time is up or a thread has to be waited for; whether it is done."""
        try:
            while True:  # at least one piece: the first may have to keep what a request points to
                future = next(work.pieces)
                if future is not None and not future.done():
                    future.add_done_callback(lambda _: self._wake(work))
                    return False
                future = None  # see `result_of`: frames refer to those that called them, too
                pieces -= 1
                if pieces <= 0 and self._scheduler.now_s() >= ends_s:
                    break
        except StopIteration:
            return True
        except Exception:
            log.exception("a scheduled task failed")
            return True
        self._put(work)
        return False

    def _wake(self, work: _Work | Callable[[], None]) -> None:
        """A thread is done with what was waited for; called in the thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: no work waits any more
            self._scheduler.loop.call_soon_threadsafe(lambda: self._put(work))

    def _put(self, work: _Work | Callable[[], None]) -> None:
        self._queue.append(work)
        if len(self._queue) == 1 and not self._is_working:
            self._scheduler.has_work(self)


class InOrder:
    """Works that are done one after the other, in the order they came."""

    def __init__(self, lane: Lane, at_once: int = PIECES_AT_ONCE) -> None:
        self._lane = lane
        self._at_once = at_once
        self._waiting: deque[Pieces[None]] = deque()
        self._when_idle: list[Callable[[], None]] = []
        self._closed = False
        self._is_inside = False

    @property
    def is_idle(self) -> bool:
        """Whether everything is done."""
        return not self._waiting

    def add(self, work: Pieces[None]) -> None:
        """Do `work`, which handles its own errors, once everything before it is done."""
        self._waiting.append(work)
        if len(self._waiting) == 1 and not self._closed:
            self._lane.begin(self._pieces(), at_once=self._at_once)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once everything is done; at once if it is."""
        if self._waiting:
            self._when_idle.append(callback)
        else:
            callback()

    def close(self) -> None:
        """Leave what is not done undone."""
        self._closed = True
        waiting, self._waiting = self._waiting, deque()
        for number, work in enumerate(waiting):
            if number or not self._is_inside:  # what closes us ends when it yields
                work.close()

    def _pieces(self) -> Pieces[None]:
        while self._waiting:
            work = self._waiting[0]
            while True:
                try:
                    self._is_inside = True
                    future = next(work)
                except StopIteration:
                    break
                except Exception:
                    log.exception("a scheduled task failed")
                    break
                finally:
                    self._is_inside = False
                if not self._closed:
                    yield future
                future = None  # see `result_of`
                if self._closed:
                    work.close()
                    return
            if self._closed:
                return
            self._waiting.popleft()
        callbacks, self._when_idle = self._when_idle, []
        for callback in callbacks:
            callback()
