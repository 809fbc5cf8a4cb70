"""All timers of a node: one heap, one handle of the event loop.

An event loop copes badly with thousands of long polls that are armed and cancelled all the time:
each costs a handle, and a cancelled one stays in the loop's heap. Here a cancelled timer is only
marked; the heap is swept when more than half of it was cancelled. The loop sees the earliest
deadline and nothing else.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

SWEEP_AT_LEAST = 1_024


class Timer:
    """One armed timer; `cancel` is safe at any time, also after it fired."""

    __slots__ = ("_callback", "_owner", "deadline_ms")

    def __init__(self, owner: Timers, deadline_ms: int, callback: Callable[[], None]) -> None:
        self._owner = owner
        self.deadline_ms = deadline_ms
        self._callback: Callable[[], None] | None = callback

    @property
    def armed(self) -> bool:
        """Whether it may still fire."""
        return self._callback is not None

    def cancel(self) -> None:
        """Never fire."""
        if self._callback is not None:
            self._callback = None
            self._owner.note_cancelled()

    def fire(self) -> None:
        """Run the callback, once."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class Timers:
    """Deadlines on the node's monotonic clock, kept by one handle of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now_ms: Callable[[], int]) -> None:
        self._loop = loop
        self._now_ms = now_ms
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0
        self._cancelled = 0
        self._handle: asyncio.TimerHandle | None = None
        self._handle_deadline_ms = 0
        self._closed = False

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` in the loop once the clock has reached `deadline_ms`."""
        timer = Timer(self, deadline_ms, callback)
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ms, self._sequence, timer))
        if self._handle is None or deadline_ms < self._handle_deadline_ms:
            self._arm()
        return timer

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` in the loop `delay_ms` from now."""
        return self.at(self._now_ms() + delay_ms, callback)

    def close(self) -> None:
        """Forget every timer and take no more."""
        self._closed = True
        self._heap.clear()
        self._cancelled = 0
        self._arm()

    def note_cancelled(self) -> None:
        """A timer in the heap is dead; sweep when most of them are."""
        self._cancelled += 1
        if self._cancelled >= SWEEP_AT_LEAST and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].armed]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._heap and not self._closed:
            self._handle_deadline_ms = self._heap[0][0]
            delay_ms = max(0, self._handle_deadline_ms - self._now_ms())
            self._handle = self._loop.call_later(delay_ms / 1000, self._fire_due)

    def _fire_due(self) -> None:
        self._handle = None
        now_ms = self._now_ms()
        while self._heap and self._heap[0][0] <= now_ms:
            timer = heapq.heappop(self._heap)[2]
            if not timer.armed:
                self._cancelled -= 1
                continue
            try:
                timer.fire()
            except Exception:
                log.exception("a timer failed")
        self._arm()
