"""Threads that compute for group coordinators what would hold up the event loop.

They share the interpreter's lock with it, so the loop goes on beside them, slower. There are as
many as Kafka has by default (`group.coordinator.background.threads`); the first work starts them.
"""

from __future__ import annotations

import contextlib
from asyncio import AbstractEventLoop
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

THREADS: Final = 2


class GroupThreads:
    """See the module docstring."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(THREADS, "groups")

    def run(self, compute: Callable[[], None], done: Callable[[], None]) -> None:
        """Call `compute()`, which raises nothing, on a thread, and then `done()` in the loop."""

        def work() -> None:
            compute()
            with contextlib.suppress(RuntimeError):  # the loop is closed: no result is wanted
                self._loop.call_soon_threadsafe(done)

        self._threads.submit(work)

    def close(self) -> None:
        """Begin nothing more; what is being computed ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)
