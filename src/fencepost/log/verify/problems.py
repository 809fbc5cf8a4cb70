"""What verification finds, and how bad it is.

* a note is worth knowing and harmless: gaps that compaction left, files that wait to be deleted;
* a warning is something that the next start puts right, or that cannot be used as it is: an index
  that does not fit its log, a torn end, what an interrupted operation has left;
* an error is damage or loss: bytes that fail their checksum, missing or overlapping offsets,
  contradictions between files that no start can settle by itself.

Warnings and errors are problems; a directory with notes alone is sound.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Severity(IntEnum):
    """See the module docstring."""

    NOTE = 0
    WARNING = 1
    ERROR = 2


class Problem(NamedTuple):
    """One finding: in which file, at which byte (where that can be said), what."""

    path: str
    position: int | None
    severity: Severity
    check: str
    """Which check it is from: one word, such as `crc`."""
    text: str
    start_offset: int | None = None
    end_offset: int | None = None
    """Which offsets of the log it is about, where that can be said: up to, not including, the end.
    """

    @property
    def is_problem(self) -> bool:
        """Whether the directory is not sound because of it."""
        return self.severity > Severity.NOTE


def unreadable(path: str, check: str, error: OSError) -> Problem:
    """The problem of a file that the disk does not give, or of what stands in its place."""
    return Problem(path, None, Severity.ERROR, check, f"cannot be read: {error.strerror or error}")


class Counts:
    """How much was looked at."""

    def __init__(self) -> None:
        self.partitions = 0
        self.segments = 0
        self.batches = 0
        self.bytes = 0
