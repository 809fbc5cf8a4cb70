"""Threads that sync files when a test says so, under the contract of `SyncThreads`."""

from __future__ import annotations

import contextlib
import os
import threading

from fencepost.log.sync_threads import TAKEN


class HeldSyncThreads:
    """Syncs nothing before `finish` says with what outcome; then `fileno` is readable."""

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self.submitted: list[tuple[int, int, tuple[int, ...]]] = []
        """Lane, number and descriptors of all that were ever submitted."""
        self.refusal: OSError | None = None
        """Raised by `submit`."""
        self.stops = 0
        self._changed = threading.Condition()
        self._pending: dict[int, None] = {}
        self._done: list[tuple[int, int, float]] = []
        self.waited_for = threading.Event()
        """Set when a caller begins to wait."""

    def fileno(self) -> int:
        return self.read_end

    def submit(self, lane: int, number: int, descriptors: tuple[int, ...]) -> None:
        if self.refusal is not None:
            raise self.refusal
        for descriptor in descriptors:
            os.fstat(descriptor)  # is open
        self.submitted.append((lane, number, descriptors))
        self._pending[number] = None

    def finish(self, number: int, error: int = 0, took_us: float = 1e6) -> None:
        """It is synced, or could not be. Any thread."""
        with self._changed:
            del self._pending[number]
            self._done.append((number, error, took_us))
            self._changed.notify_all()
        os.write(self._write_end, b"!")

    def wait(self, number: int) -> int:
        self.waited_for.set()
        with self._changed:
            assert self._changed.wait_for(lambda: number not in self._pending, 30)
            return next((error for one, error, _ in self._done if one == number), TAKEN)

    def take(self) -> list[tuple[int, int, float]]:
        if self.read_end >= 0:
            with contextlib.suppress(BlockingIOError):
                os.read(self.read_end, 4096)
        with self._changed:
            done, self._done = self._done, []
        return done

    def stop(self) -> None:
        self.stops += 1
        for number in list(self._pending):
            self.finish(number)
        if self.read_end >= 0:
            os.close(self.read_end)
            os.close(self._write_end)
            self.read_end = -1
