"""How often what clients cause is worth a line in the log, and how much of what they say is shown.

A client that connects a thousand times a second and sends invalid bytes must not fill the disk with
log lines: after `BURST_LINES` there are `LINES_PER_S` at most, and the next line says how many were
left out.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

BURST_LINES: Final = 200
LINES_PER_S: Final = 10
SHOWN_CHARACTERS: Final = 100
NOTE_CHARACTERS: Final = 500
CLIENTS_REMEMBERED: Final = 1_000


def shown(text: str | None) -> str:
    """What a client calls itself or something, quoted, escaped and cut."""
    if text is None:
        return "without a name"
    if len(text) <= SHOWN_CHARACTERS:
        return repr(text)
    return f"{text[:SHOWN_CHARACTERS]!r}... ({len(text)} characters)"


def cut(note: str) -> str:
    """A note that repeats what clients say, of bounded length."""
    return note if len(note) <= NOTE_CHARACTERS else f"{note[:NOTE_CHARACTERS]}..."


class LogLimit:
    """Decides which lines are written, as the module says."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lines = float(BURST_LINES)
        self._counted_at = clock()
        self._left_out = 0

    def admit(self) -> int | None:
        """How many lines were left out before this one; None if this one is to be left out."""
        now = self._clock()
        self._lines = min(BURST_LINES, self._lines + (now - self._counted_at) * LINES_PER_S)
        self._counted_at = now
        if self._lines < 1:
            self._left_out += 1
            return None
        self._lines -= 1
        left_out, self._left_out = self._left_out, 0
        return left_out


class LimitedLog:
    """Lines about one subject, as many as the module says."""

    def __init__(
        self,
        logger: logging.Logger,
        subject: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logger
        self._subject = subject
        self._limit = LogLimit(clock)

    def info(self, line: str) -> None:
        """Log the line at INFO, cut, unless there were too many."""
        self._log(logging.INFO, line)

    def warning(self, line: str) -> None:
        """The same at WARNING."""
        self._log(logging.WARNING, line)

    def _log(self, level: int, line: str) -> None:
        left_out = self._limit.admit()
        if left_out is not None:
            more = f" ({left_out} more lines about {self._subject} were left out)"
            self._logger.log(level, "%s%s", cut(line), more if left_out else "")


class ClientWarnings:
    """Tells the operator once of each client that wants what is not offered."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = LogLimit(clock)
        # The least recently seen first. A line that was left out is not remembered.
        self._told: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    def warn(self, client_id: str | None, client_host: str, message: str) -> None:
        """Log that the client at this address does what `message` says, if that is new."""
        key = (shown(client_id), client_host, message)
        if key in self._told:
            self._told.move_to_end(key)
            return
        left_out = self._limit.admit()
        if left_out is None:
            return
        self._told[key] = None
        if len(self._told) > CLIENTS_REMEMBERED:
            self._told.popitem(last=False)
        more = f" ({left_out} more lines like this were left out)" if left_out else ""
        log.warning("client %s at %s %s%s", key[0], client_host, message, more)
