"""Virtual time for many nodes of one core each: what a step costs here is how long it takes there.

Every event runs on some node's core. The CPU time that it takes in this process, plus what it
charges by hand for what is not done here (`Core.charge`), is the time for which that core is busy;
what it sends leaves when it is done. So a thousand messages to one node queue there, while a
hundred nodes work side by side, however few cores this machine has and whatever else it does.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable

Callback = Callable[[], None]


class Event:
    """Something that is to happen; the handle of a timer."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callback) -> None:
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        """It never happens."""
        self.callback = None


class World:
    """The clock, in milliseconds, and what is to happen."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self._events: list[tuple[float, int, Event]] = []
        self._numbers = itertools.count()

    def at(self, deadline_ms: float, callback: Callback) -> Event:
        """Call back at that time, or at once if it has passed."""
        event = Event(callback)
        heapq.heappush(self._events, (max(deadline_ms, self.now_ms), next(self._numbers), event))
        return event

    def run(self, until_ms: float, is_done: Callable[[], bool] = lambda: False) -> None:
        """Let things happen until then, or until it is done."""
        while self._events and self._events[0][0] <= until_ms and not is_done():
            self.now_ms, _, event = heapq.heappop(self._events)
            if event.callback is not None:
                event.callback()
        if not is_done():
            self.now_ms = max(self.now_ms, until_ms)


class Core:
    """One node's core: does one thing after the other, and knows for how long."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._queue: deque[Event] = deque()
        self._is_busy = False
        self._charged_ms = 0.0
        self._after: list[Callback] = []
        self.is_alive = True
        self.busy_ms = 0.0
        """CPU time used since it was set to 0 last."""

    def charge(self, cost_ms: float) -> None:
        """What runs now costs so much more than it does here."""
        self._charged_ms += cost_ms

    def then(self, callback: Callback) -> None:
        """Call back when the core is done with what runs now."""
        self._after.append(callback)

    def soon(self, work: Callback, at_ms: float | None = None) -> Event:
        """Run `work` when the time has come and the core is free."""
        event = Event(work)
        self._world.at(self._world.now_ms if at_ms is None else at_ms, lambda: self._put(event))
        return event

    def _put(self, event: Event) -> None:
        self._queue.append(event)
        if not self._is_busy:
            self._next()

    def _next(self) -> None:
        self._is_busy = False
        while self._queue and self.is_alive:
            work = self._queue.popleft().callback
            if work is not None:
                self._do(work)
                return

    def _do(self, work: Callback) -> None:
        began_s = time.process_time()
        work()
        took_ms = max(0.0, (time.process_time() - began_s) * 1000 + self._charged_ms)
        self._charged_ms = 0.0
        self.busy_ms += took_ms
        self._is_busy = True
        after, self._after = self._after, []

        def free() -> None:
            for callback in after:
                callback()
            self._next()

        self._world.at(self._world.now_ms + took_ms, free)


class Timers:
    """`TimerQueue` of a node."""

    def __init__(self, world: World, core: Core) -> None:
        self._world = world
        self._core = core

    def at(self, deadline_ms: int, callback: Callback) -> Event:
        """See `runtime.ports.TimerQueue`."""
        return self._core.soon(callback, deadline_ms)

    def after(self, delay_ms: int, callback: Callback) -> Event:
        """See `runtime.ports.TimerQueue`."""
        return self.at(int(self._world.now_ms) + delay_ms, callback)
