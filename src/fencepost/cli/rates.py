"""Progress of work on many records: how many, how fast, how much is done and left."""

from __future__ import annotations

import sys
import time
from typing import Final

EVERY_S: Final = 5.0
SCREEN_EVERY_S: Final = 0.5


class Rates:
    """Lines on stderr; on a terminal, one that is drawn again. `total`: of what is done in the end,
    in whatever `done` of `add` counts; None if it is unknown."""

    def __init__(self, total: int | None, *, quiet: bool = False) -> None:
        self.total = total
        self.rows = 0
        self.data_bytes = 0
        self.done = 0
        self._quiet = quiet
        self._is_screen = sys.stderr.isatty()
        self._started = time.monotonic()
        self._next = 0.0
        self._drawn = False

    @property
    def took_s(self) -> float:
        """Since the beginning."""
        return max(time.monotonic() - self._started, 1e-9)

    def add(self, rows: int, data_bytes: int, done: int) -> None:
        """So much more; shown if it is time again."""
        self.rows += rows
        self.data_bytes += data_bytes
        self.done += done
        self.show()

    def show(self) -> None:
        """Show how far it is, if it is time again."""
        now = time.monotonic()
        if self._quiet or now < self._next or not self.data_bytes:
            return
        self._next = now + (SCREEN_EVERY_S if self._is_screen else EVERY_S)
        line = self.line()
        if self._is_screen:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
            self._drawn = True
        else:
            print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the line clean."""
        if self._drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def line(self) -> str:
        """What is shown."""
        parts = [
            f"{self.data_bytes / 1e6:,.1f} MB",
            f"{self.data_bytes / 1e6 / self.took_s:,.1f} MB/s",
        ]
        if self.rows:
            parts[:0] = [f"{self.rows:,} records", f"{self.rows / self.took_s:,.0f} records/s"]
        if self.total and self.done:
            share = min(1.0, self.done / self.total)
            parts.append(f"{share:.0%} done")
            parts.append(f"{duration(self.took_s * (1 / share - 1))} left")
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """The two largest units."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
