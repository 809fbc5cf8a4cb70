"""The trace of a run: a fingerprint that says whether two runs were the same, and, if asked, words.

Every event goes into a SHA-256 with its time, its kind and its node, and so does every change of
what can be seen of a node. Two runs of one seed have one fingerprint, in any process, whatever
PYTHONHASHSEED says. Words are for people; they are kept only when the run was asked for them, and
do not go into the fingerprint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

_LINES_PER_UPDATE = 512


class Trace:
    """See the module docstring. With `tell`, called with each line of words, words are made."""

    __slots__ = ("_hash", "_lines", "events", "tell")

    def __init__(self, tell: Callable[[str], None] | None = None) -> None:
        self._hash = hashlib.sha256()
        self._lines: list[str] = []
        self.events = 0
        self.tell = tell

    def event(self, at_us: int, kind: str, node_id: int) -> None:
        """Something happens."""
        self.events += 1
        self.note(f"{at_us} {kind} {node_id}")

    def note(self, line: str) -> None:
        """Something that must be the same in every run of the seed."""
        self._lines.append(line)
        if len(self._lines) >= _LINES_PER_UPDATE:
            self._flush()

    def fingerprint(self) -> str:
        """The SHA-256 of everything so far, in hexadecimal digits."""
        self._flush()
        return self._hash.copy().hexdigest()

    def _flush(self) -> None:
        if self._lines:
            self._lines.append("")
            self._hash.update("\n".join(self._lines).encode())
            self._lines.clear()
