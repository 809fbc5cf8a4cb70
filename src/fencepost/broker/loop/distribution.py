"""`Distribution`: how values are distributed that come by the ten thousand a second.

Theory of operation
-------------------
`add` puts a value into a list, which is all that the hot path pays for; when `FRESH_MAX` have come,
or `look` is called, they are sorted and counted into buckets. A bucket ends a sixth of an octave
behind the one before it, so a quantile is reported up to 12 % too high, whatever it is a quantile
of.

Quantiles are of what has come lately: `look` remembers what the buckets were at some of the earlier
looks, and subtracts what they were `WINDOW_S` ago. If it is called seldom, they are of all values
since the latest look that is `WINDOW_S` old.

It must not know: what the values mean. Their unit is the caller's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from math import inf
from typing import Final

FRESH_MAX: Final = 1024
"""Values that wait to be counted."""
WINDOW_S: Final = 300.0
"""Quantiles are of so long, and up to `MARK_EVERY_S` more when looked for that often."""
MARK_EVERY_S: Final = 60.0
STEPS_PER_OCTAVE: Final = 6
OCTAVES: Final = 32
LEAST: Final = 0.001
"""The end of the first bucket behind that of 0."""

_ENDS = tuple(LEAST * 2 ** (n / STEPS_PER_OCTAVE) for n in range(OCTAVES * STEPS_PER_OCTAVE + 1))
BOUNDS: Final = (0.0, *_ENDS)
"""Where each bucket ends, in the values' own unit; what is beyond the last is in the last."""


class Distribution:
    """See the module."""

    __slots__ = ("_buckets", "_count", "_marks", "_sum", "add", "fresh")

    def __init__(self) -> None:
        self.fresh: list[float] = []
        """Values that are not in buckets yet."""
        self.add = self.fresh.append
        """Take a value, not negative; call `count_if_many` now and then."""
        self._buckets = [0] * len(BOUNDS)
        self._count = 0
        self._sum = 0.0
        self._marks = deque([(-inf, self._buckets.copy())])

    def add_all(self, values: Iterable[float]) -> None:
        """Take many values."""
        self.fresh += values
        self.count_if_many()

    def count_if_many(self) -> None:
        """Count what was added into buckets if it is much."""
        if len(self.fresh) >= FRESH_MAX:
            self.count_now()

    @property
    def count(self) -> int:
        """How many values there were."""
        return self._count + len(self.fresh)

    @property
    def sum(self) -> float:
        """Their sum."""
        return self._sum + sum(self.fresh)

    def look(self, now_s: float) -> Recent:
        """How the values of the last minutes are distributed; `now_s` is of a monotonic clock."""
        self.count_now()
        marks = self._marks
        if now_s - marks[-1][0] >= MARK_EVERY_S:
            marks.append((now_s, self._buckets.copy()))
        while len(marks) > 1 and now_s - marks[1][0] >= WINDOW_S:
            marks.popleft()
        before = marks[0][1]
        return Recent([now - then for now, then in zip(self._buckets, before, strict=True)])

    @property
    def mean(self) -> float:
        """The mean of all values; 0 without any."""
        return self.sum / self.count if self.count else 0.0

    def count_now(self) -> None:
        """Count what was added into buckets."""
        values = self.fresh
        if not values:
            return
        values.sort()
        self._count += len(values)
        self._sum += sum(values)
        buckets, last = self._buckets, len(BOUNDS) - 1
        done = 0
        while done < len(values):
            bucket = min(bisect_left(BOUNDS, values[done]), last)
            end = len(values) if bucket == last else bisect_right(values, BOUNDS[bucket], done)
            buckets[bucket] += end - done
            done = end
        values.clear()


class Recent:
    """What a look at a `Distribution` has found."""

    def __init__(self, buckets: list[int]) -> None:
        self._buckets = buckets
        self.count = sum(buckets)
        """How many values it is about."""

    @classmethod
    def of(cls, several: Iterable[Recent]) -> Recent:
        """What several looks have found, together."""
        return cls([sum(counts) for counts in zip(*(one._buckets for one in several), strict=True)])

    def quantile(self, share: float) -> float | None:
        """The value that `share` of the values do not exceed; None without any."""
        if not self.count:
            return None
        needed = share * self.count
        found = 0
        for bucket, count in enumerate(self._buckets):
            found += count
            if count and found >= needed:
                return BOUNDS[bucket]
        return BOUNDS[-1]
