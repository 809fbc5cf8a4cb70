"""File descriptors, and what happens when there is none to be had (EMFILE, ENFILE).

Theory of operation
-------------------
That the process (EMFILE) or the system (ENFILE) has no descriptor to give says nothing about a
disk: nothing was opened, nothing was lost, and the same call succeeds later. So it must not take a
log directory offline. A caller of `Descriptors.open` gets such an error only where it asked for
that; otherwise, in this order:

* a spare descriptor, of which `spare` are kept on /dev/null, is closed in favour of the call;
* idle segment files are closed (`on_shortage`);
* the call waits, and is tried again every `RETRY_S`. A line in the log says so now and then.

On the event loop's thread a wait stops the node, so requests that can fail do not wait
(`without_waiting`): they are refused with a retriable error. What must not fail half-way, such as a
truncation, does. Waiting ends after `patience_s`; a node that stops gives up sooner than one that
runs.

Closing a file loses nothing only if nothing of it waits for fsync: the kernel reports a failed
writeback once per open file, and may forget it when the last one is closed. So what closes idle
files must leave alone, or sync first, those that have been written to since their last fsync.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_S: Final = 0.02
TOLD_EVERY_S: Final = 5.0
FOREVER_S: Final = float("inf")


def is_shortage(error: object) -> bool:
    """Whether an error only says that there was no file descriptor to be had."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


class Descriptors:
    """See the module docstring. `open` may be called on any thread."""

    def __init__(self, spare: int = 0, *, pause: Callable[[float], None] = time.sleep) -> None:
        self.patience_s = FOREVER_S
        """How long a call waits at most, in seconds."""
        self.on_shortage: Callable[[], None] = _nothing
        """Called on a thread that finds no descriptor: close idle files, or have them closed."""
        self._wanted = spare
        self._pause = pause
        self._spares: list[int] = []
        self._lock = threading.Lock()
        self._impatience = _Impatience()
        self._told_at = float("-inf")
        self._refill()

    def open(self, call: Callable[[], T]) -> T:
        """What `call` returns, which opens one descriptor. OSError; for a shortage see above."""
        try:
            opened = call()
        except OSError as error:
            if not is_shortage(error):
                raise
            return self._open_scarce(call)
        if len(self._spares) < self._wanted:
            with self._lock:
                self._refill()
        return opened

    def without_waiting(self) -> AbstractContextManager[None]:
        """Within it, calls of this thread fail with EMFILE or ENFILE instead of waiting."""
        return self._impatience

    def close(self) -> None:
        """Give the spare descriptors back; from now on there are none."""
        with self._lock:
            self._wanted = 0
            while self._spares:
                os.close(self._spares.pop())

    def _open_scarce(self, call: Callable[[], T]) -> T:
        waited_s = -RETRY_S  # the first time around, idle files are closed instead
        while True:
            try:
                return self._open_with_spare(call)
            except OSError as error:
                if not is_shortage(error):
                    raise
                is_over = waited_s >= self.patience_s or self._impatience.depth > 0
                if waited_s >= 0 and is_over:
                    raise
                if waited_s >= 0:
                    self._tell(error)
                    self._pause(RETRY_S)
            self.on_shortage()
            waited_s += RETRY_S

    def _open_with_spare(self, call: Callable[[], T]) -> T:
        with self._lock:
            if self._spares:
                os.close(self._spares.pop())
            try:
                return call()
            finally:
                self._refill()

    def _refill(self) -> None:
        """Have as many spares as are wanted, or as can be had. Under the lock."""
        with contextlib.suppress(OSError):
            while len(self._spares) < self._wanted:
                self._spares.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def _tell(self, error: OSError) -> None:
        now = time.monotonic()
        if now - self._told_at >= TOLD_EVERY_S:
            self._told_at = now
            whose = "this process" if error.errno == errno.EMFILE else "the system"
            log.warning("waiting for a file descriptor: %s has none left (ulimit -n)", whose)


class _Impatience(threading.local):
    """See `Descriptors.without_waiting`; each thread has its own."""

    depth = 0
    """In how many contexts the thread is, one within the other."""

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


def _nothing() -> None:
    """There is nothing that could be closed."""
