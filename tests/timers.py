"""Timers for tests: time passes when the test says so."""

from __future__ import annotations

import heapq
from collections.abc import Callable

START_MS = 5_000
WALL_AHEAD_MS = 1_700_000_000_000


class ManualTimer:
    """One deadline of `ManualTimers`."""

    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ManualTimers:
    """Timers of a clock that only `advance` moves; `wall_ahead_ms` sets the wall clock."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.wall_ahead_ms = WALL_AHEAD_MS
        self._armed: list[tuple[int, int, ManualTimer, Callable[[], None]]] = []
        self._number = 0

    @property
    def wall_ms(self) -> int:
        return self.now_ms + self.wall_ahead_ms

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer()
        self._number += 1
        heapq.heappush(self._armed, (deadline_ms, self._number, timer, callback))
        return timer

    def after(self, delay_ms: int, callback: Callable[[], None]) -> ManualTimer:
        return self.at(self.now_ms + delay_ms, callback)

    def fire_one(self) -> None:
        """Fire one timer that is due now, and not those that it arms."""
        while self._armed and self._armed[0][0] <= self.now_ms:
            _, _, timer, callback = heapq.heappop(self._armed)
            if not timer.is_cancelled:
                callback()
                return

    def advance(self, ms: int) -> None:
        """Let that much time pass, and fire what is due."""
        end = self.now_ms + ms
        while self._armed and self._armed[0][0] <= end:
            deadline, _, timer, callback = heapq.heappop(self._armed)
            self.now_ms = max(self.now_ms, deadline)
            if not timer.is_cancelled:
                callback()
        self.now_ms = end
