"""The machine's time: two clocks, its deadlines, and the numbers that timeouts are drawn with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from fencepost.machines.effects import SetTimer
from fencepost.machines.quorum.component import Component
from fencepost.machines.quorum.outbox import Outbox
from fencepost.machines.quorum.tracker import NEVER_MS


class Timers(Component):
    """`now_ms` is the monotonic time of the present step, `wall_ms` what the wall clock shows.

    `deadlines` are the timers that are armed, by name.
    """

    NOT_STATE: ClassVar = frozenset(("_jitter", "_jitter_used", "deadlines", "now_ms", "wall_ms"))

    def __init__(self, outbox: Outbox) -> None:
        self.now_ms = 0
        self.wall_ms = 0
        self.deadlines: dict[str, int] = {}
        self._outbox = outbox
        self._jitter: tuple[int, ...] = ()
        self._jitter_used = 0

    def start(self, jitter: Sequence[int]) -> None:
        """Take the numbers that the shell has drawn; they are used in turn, over and over."""
        assert jitter and min(jitter) >= 0, "jitter is numbers, and some"
        self._jitter = tuple(jitter)

    def set(self, name: str, deadline_ms: int | None) -> None:
        """Arm a timer for `deadline_ms`, or disarm it with None."""
        if self.deadlines.get(name) == deadline_ms:
            return
        if deadline_ms is None:
            del self.deadlines[name]
        else:
            self.deadlines[name] = deadline_ms
        self._outbox.emit(SetTimer(name, deadline_ms))

    @property
    def due(self) -> tuple[str, ...]:
        """The timers whose deadlines have passed, by name."""
        now_ms = self.now_ms
        return tuple(sorted(name for name, at_ms in self.deadlines.items() if at_ms <= now_ms))

    def is_armed(self, name: str) -> bool:
        """Whether the timer has a deadline."""
        return name in self.deadlines

    def is_due(self, name: str) -> bool:
        """Whether a timer that fired was not re-armed or disarmed meanwhile; disarms it if so."""
        deadline = self.deadlines.get(name)
        if deadline is None:
            return False
        if self.now_ms < deadline:
            # It fired early, or for a deadline of before: arm it again for the one that counts.
            self._outbox.emit(SetTimer(name, deadline))
            return False
        del self.deadlines[name]
        return True

    def wall_of(self, at_ms: int) -> int:
        """When something was that happened at `at_ms`, as the wall clock is now; -1 for never."""
        return -1 if at_ms == NEVER_MS else self.wall_ms - (self.now_ms - at_ms)

    def random_deadline(self, timeout_ms: int) -> int:
        """One to two timeouts from now, drawn at random."""
        value = self._jitter[self._jitter_used % len(self._jitter)]
        self._jitter_used += 1
        return self.now_ms + timeout_ms + (value % timeout_ms if timeout_ms > 0 else 0)
