"""How far a command is with a large file."""

from __future__ import annotations

import sys
import time

_PROGRESS_FROM_BYTES = 32 * 1024 * 1024
_PROGRESS_EVERY_S = 0.2


class Progress:
    """Percent on stderr, for large inputs and people who are looking."""

    def __init__(self, total_bytes: int | None) -> None:
        self._total = total_bytes or 0
        self._is_shown = self._total >= _PROGRESS_FROM_BYTES and sys.stderr.isatty()
        self._next = 0.0

    def show(self, done_bytes: int) -> None:
        """Say how much is done, if it is time again."""
        if self._is_shown and (now := time.monotonic()) >= self._next:
            self._next = now + _PROGRESS_EVERY_S
            percent = min(99, 100 * done_bytes // self._total)
            print(f"\r{percent:3} % of {self._total >> 20} MiB", end="", file=sys.stderr)

    def close(self) -> None:
        """Leave the line clean."""
        if self._is_shown and self._next:
            print("\r" + " " * 30 + "\r", end="", file=sys.stderr)
