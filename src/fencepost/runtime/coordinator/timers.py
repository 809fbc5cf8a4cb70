"""`NamedTimers`: the timers of one coordinator, by name.

Most are set again and again before they fire (a session is as long as the next heartbeat is away),
so a deadline that moves later does not move the timer: it is armed again when it fires too early.
A heartbeat costs one entry of a dict.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from fencepost.runtime.ports import ArmedTimer, TimerQueue


class _Timer:
    __slots__ = ("armed", "callback", "deadline_ms", "fires_ms")

    def __init__(self, deadline_ms: int, callback: Callable[[], None]) -> None:
        self.deadline_ms = deadline_ms
        self.fires_ms = deadline_ms
        self.callback = callback
        self.armed: ArmedTimer | None = None


class NamedTimers:
    """See the module docstring. Times are milliseconds of the monotonic clock."""

    def __init__(self, queue: TimerQueue) -> None:
        self._queue = queue
        self._timers: dict[Hashable, _Timer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._timers)

    def __contains__(self, name: Hashable) -> bool:
        return name in self._timers

    def deadline_ms(self, name: Hashable) -> int | None:
        """When the timer fires; None if it is not set."""
        timer = self._timers.get(name)
        return None if timer is None else timer.deadline_ms

    def set(self, name: Hashable, deadline_ms: int, callback: Callable[[], None]) -> None:
        """Call back at the deadline, in the place of what was set under that name before."""
        timer = self._timers.get(name)
        if timer is not None and timer.fires_ms <= deadline_ms:
            timer.deadline_ms, timer.callback = deadline_ms, callback
            return
        self.cancel(name)
        timer = self._timers[name] = _Timer(deadline_ms, callback)
        self._arm(name, timer)

    def postpone(self, name: Hashable, deadline_ms: int) -> bool:
        """Let the timer fire at that later time, and call back as before; whether there is one that
        would fire before."""
        timer = self._timers.get(name)
        if timer is None or timer.fires_ms > deadline_ms:
            return False
        timer.deadline_ms = deadline_ms
        return True

    def cancel(self, name: Hashable) -> None:
        """The timer does not fire."""
        timer = self._timers.pop(name, None)
        if timer is not None and timer.armed is not None:
            timer.armed.cancel()

    def cancel_all(self) -> None:
        """No timer fires any more."""
        for name in list(self._timers):
            self.cancel(name)

    def _arm(self, name: Hashable, timer: _Timer) -> None:
        timer.fires_ms = timer.deadline_ms
        timer.armed = self._queue.at(timer.deadline_ms, lambda: self._fired(name, timer))

    def _fired(self, name: Hashable, timer: _Timer) -> None:
        if timer.fires_ms < timer.deadline_ms:
            self._arm(name, timer)
        else:
            del self._timers[name]
            timer.callback()
