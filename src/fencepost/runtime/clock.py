"""The broker's clock: wall-clock milliseconds that never jump by accident.

Timestamps and timers are measured with the same clock (see `machines/driver.py`), so it must be
the wall clock, yet a timer must not fire early or late because someone corrected the time by a few
milliseconds. The clock therefore runs on the monotonic one, from the wall-clock time at which it
was made, and follows the wall clock only when `resync` finds the two more than a second apart
(a suspended machine, a clock set by hand).
"""

from __future__ import annotations

import time

RESYNC_THRESHOLD_MS = 1_000


class Clock:
    """Milliseconds since the Unix epoch, steady between calls of `resync`."""

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        """The time now, in milliseconds since the Unix epoch."""
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    def resync(self) -> int:
        """Follow the wall clock if it has left us behind; the jump in ms, 0 for none."""
        offset_ns = time.time_ns() - time.monotonic_ns()
        jump_ms = (offset_ns - self._offset_ns) // 1_000_000
        if abs(jump_ms) < RESYNC_THRESHOLD_MS:
            return 0
        self._offset_ns = offset_ns
        return jump_ms
