"""Long work for the event loop, done in steps so that others come to their turns meanwhile.

A piece of work is a generator: it yields after each step, or yields a future when it has to wait
for something that a thread does. Works are done one after the other, in the order they came; what
is small is done when `add` returns.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, Final

Work = Generator["Future[Any] | None", None, None]

STEPS_AT_ONCE: Final = 100
"""Steps done on the spot when work is added and nothing else is waiting."""
STEPS_PER_TURN: Final = 20
"""Steps done before everybody else comes first again."""


class Turns:
    """The works of one owner."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Work] = deque()
        self._closed = False
        self._settled: list[asyncio.Future[None]] = []
        self._is_working = False

    @property
    def is_idle(self) -> bool:
        """Whether everything is done."""
        return not self._waiting

    def add(self, work: Work) -> None:
        """Do `work`, which handles its own errors, once everything before it is done."""
        self._waiting.append(work)
        if len(self._waiting) == 1 and not self._closed:
            self._go_on(STEPS_AT_ONCE)

    async def settled(self) -> None:
        """Wait until everything is done."""
        if self._waiting:
            done: asyncio.Future[None] = self._loop.create_future()
            self._settled.append(done)
            await done

    def close(self) -> None:
        """Leave what is not done undone."""
        self._closed = True
        waiting, self._waiting = self._waiting, deque()
        if not self._is_working:
            for work in waiting:
                work.close()

    def _go_on(self, steps: int) -> None:
        while self._waiting and not self._closed:
            work = self._waiting[0]
            while steps:
                steps -= 1
                try:
                    self._is_working = True
                    future = next(work)
                except StopIteration:
                    if self._waiting:
                        self._waiting.popleft()
                    break
                finally:
                    self._is_working = False
                if self._closed:
                    return
                if future is not None and not future.done():
                    future.add_done_callback(self._wake)
                    return
            else:
                self._loop.call_soon(self._go_on, STEPS_PER_TURN)
                return
        for done in self._settled:
            if not done.done():
                done.set_result(None)
        self._settled.clear()

    def _wake(self, _: Future[Any]) -> None:
        """A thread is done with what was waited for."""
        if not self._closed:
            self._loop.call_soon_threadsafe(self._go_on, STEPS_PER_TURN)
