"""Ctrl-C for a command that must not be stopped in the middle of a request."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupts:
    """While it is entered, SIGINT raises KeyboardInterrupt only within `waiting`: at once if it
    waits, else when it begins to. The second SIGINT raises wherever it comes."""

    def __init__(self) -> None:
        self._count = 0
        self._is_waiting = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *_error: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    @property
    def is_final(self) -> bool:
        """Whether it came a second time: nothing is to be waited for any more."""
        return self._count > 1

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A place where nothing is half done. Raises KeyboardInterrupt."""
        self._is_waiting = True
        try:
            if self._count:
                raise KeyboardInterrupt
            yield
        finally:
            self._is_waiting = False

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._is_waiting or self._count > 1:
            raise KeyboardInterrupt
