"""How late the event loop is: a timer that says by how much it came late."""

from __future__ import annotations

import asyncio
from typing import Final

from fencepost.broker.loop.distribution import Distribution

EVERY_S: Final = 0.25


class LoopDelay:
    """Measures from `start` to `close`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self.seconds = Distribution()
        """By how much timers came late, in seconds."""

    def start(self) -> None:
        """Begin to measure."""
        self._arm()

    def close(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        due_s = self._loop.time() + EVERY_S
        self._timer = self._loop.call_at(due_s, self._fire, due_s)

    def _fire(self, due_s: float) -> None:
        self.seconds.add(max(0.0, self._loop.time() - due_s))
        self.seconds.count_if_many()
        self._arm()
