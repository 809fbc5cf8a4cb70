"""The two clocks of a node, and what each of them is for.

`now_ms` is monotonic: it begins anywhere, goes forward only, and does not change when the time of
day is set. Timers, deadlines, sessions, lags and delays are reckoned with it; it means nothing on
another node or after a reboot, so it is never written down nor sent.

`wall_ms` is the time of day, milliseconds since the Unix epoch. It may be set to anything at any
moment. It is read where a timestamp is stamped (LogAppendTime, commit timestamps, batches of the
node's own) and where the age of what has one is judged (retention, `segment.ms`, producer ids,
committed offsets, snapshots). Nothing that a request or another node waits for goes by it.

Where both are at hand, names tell them apart: `now_ms` and `deadline_ms` are of the first clock,
`wall_ms` and `timestamp_ms` of the second.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clocks(Protocol):
    """Both clocks; see the module docstring."""

    def now_ms(self) -> int:
        """Milliseconds of the monotonic clock."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


class SystemClocks:
    """The clocks of the machine that this process runs on."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Milliseconds of the monotonic clock."""
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


class WorkClock(Protocol):
    """Measures how long a handler has worked, for what it may do before other requests come."""

    def work_s(self) -> float:
        """Seconds, from anywhere, forward only."""
        ...


class SystemWorkClock:
    """The work clock of this process."""

    __slots__ = ()

    work_s = staticmethod(time.perf_counter)
