"""`LoadTimes`: how long the coordinators of a node have taken to load lately.

Kafka tells it as partition-load-time-max and -avg, of two windows of 30 seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

WINDOW_MS: Final = 60_000
LOADS_MAX: Final = 10_000
"""Of which none is forgotten earlier: more than a node has coordinators."""


class LoadTimes:
    """See the module."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._loads: deque[tuple[int, int]] = deque(maxlen=LOADS_MAX)  # when over, how long

    def note(self, load_ms: int) -> None:
        """A coordinator is loaded, after so long."""
        self._loads.append((self._now_ms(), load_ms))

    def recent(self) -> tuple[float, float]:
        """The longest in milliseconds, and the average; NaN both if nothing was loaded lately."""
        oldest_ms = self._now_ms() - WINDOW_MS
        while self._loads and self._loads[0][0] <= oldest_ms:
            self._loads.popleft()
        if not self._loads:
            return float("nan"), float("nan")
        times_ms = [load_ms for _, load_ms in self._loads]
        return max(times_ms), sum(times_ms) / len(times_ms)
