"""Ctrl-C and SIGTERM for commands that have something to put in order before they end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """While it is entered, SIGTERM raises KeyboardInterrupt, as SIGINT does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Interrupts:
    """While it is entered, SIGINT and SIGTERM raise KeyboardInterrupt only within `waiting`: at
    once if it waits, else when it begins to. The second one raises wherever it comes."""

    def __init__(self) -> None:
        self._count = 0
        self._is_waiting = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def is_final(self) -> bool:
        """Whether one came a second time: nothing is to be waited for any more."""
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
