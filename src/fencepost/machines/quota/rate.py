"""A rate over the last windows, as Kafka samples it, and how long to wait until it is kept.

Theory of operation
-------------------
What is recorded goes into the sample of the window that runs; a window begins with the first record
after the one before has lasted. There are one more samples than windows, used in turn. A sample
that nothing was recorded in for as long as all windows last is emptied when the rate is measured.

The rate is the sum of the samples by the time since the oldest of them began; but that counts as
all windows but one at least, so that a client that begins may send a burst of so much.

Most of the time a limit is far away. So the sum is kept as well, and as long as the burst alone
allows as much, and no sample is old enough to be emptied, nothing is measured.
"""

from __future__ import annotations

from math import floor
from typing import Final

from msgspec import Struct

from fencepost.log.configdef import INT_MAX

_SURELY: Final = 1 - 1e-6
"""The sum that is kept may differ from that of the samples by so much: it is added up otherwise."""


class Windows(Struct, frozen=True):
    """How a rate is sampled: `quota.window.num` and `quota.window.size.seconds`."""

    count: int = 11
    size_ms: int = 1_000

    @property
    def burst_s(self) -> float:
        """How many seconds' worth a client may use at once without being throttled."""
        return (self.count - 1) * self.size_ms / 1_000


class SampledRate:
    """Units per second; all times are milliseconds of one clock."""

    __slots__ = ("_burst_s", "_current", "_fresh_until_ms", "_samples", "_total", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._burst_s = windows.burst_s * _SURELY
        self._total = 0.0
        self._fresh_until_ms = 0  # no sample is emptied before
        self._samples: list[list[float]] = []  # [began at, last recorded at, sum]
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """So many units more; fewer, if they are taken back."""
        samples = self._samples
        if not samples:
            samples.append([now_ms, now_ms, value])
            self._sum_up()
            return
        sample = samples[self._current]
        if now_ms - sample[0] >= self._windows.size_ms:
            self._current = (self._current + 1) % (self._windows.count + 1)
            if self._current >= len(samples):
                samples.append([now_ms, now_ms, value])
            else:
                samples[self._current][:] = (now_ms, now_ms, value)
            self._sum_up()
            return
        sample[1] = now_ms
        sample[2] += value
        self._total += value

    def window_ms(self, now_ms: int) -> int:
        """The time that the rate is taken over."""
        windows = self._windows
        self._forget(now_ms)
        oldest_ms = min((sample[0] for sample in self._samples), default=now_ms)
        elapsed_ms = int(now_ms - oldest_ms)
        missing = windows.count - 1 - elapsed_ms // windows.size_ms
        return max(elapsed_ms + max(missing, 0) * windows.size_ms, 1)

    def measure(self, now_ms: int) -> float:
        """The rate."""
        window_ms = self.window_ms(now_ms)
        return sum(sample[2] for sample in self._samples) / (window_ms / 1_000)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """How long nothing may be recorded until the rate is at the limit; 0 if it is kept."""
        if now_ms < self._fresh_until_ms and self._total <= limit * self._burst_s:
            return 0
        observed = self.measure(now_ms)
        if observed <= limit:
            return 0
        return round_half_up((observed - limit) / limit * self.window_ms(now_ms))

    def _forget(self, now_ms: int) -> None:
        expires_ms = self._windows.count * self._windows.size_ms
        for sample in self._samples:
            if now_ms - sample[1] >= expires_ms:
                sample[:] = (now_ms, now_ms, 0.0)
        self._sum_up()

    def _sum_up(self) -> None:
        """Samples have begun."""
        samples, windows = self._samples, self._windows
        self._total = sum(sample[2] for sample in samples)
        earliest_ms = min((sample[1] for sample in samples), default=0)
        self._fresh_until_ms = int(earliest_ms) + windows.count * windows.size_ms


def round_half_up(time_ms: float) -> int:
    """The nearest whole number, of two the greater, as Java's `Math.round` has it; no more than a
    throttle time can say."""
    return floor(min(time_ms, INT_MAX) + 0.5)
