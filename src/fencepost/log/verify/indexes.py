"""Offset and time index of a segment against its batches.

An entry of the offset index names a batch by its last offset and its place. Its absence costs time
only, so what is not there is not missed; what is there must be exact, or reads miss records.

An entry of the time index names the batch in which the largest timestamp so far first appeared. The
last entry of a segment that is closed has the largest of all. An index that ends in the zeros of
its reserved room is of a segment that was not closed: so Kafka 4.4.0 leaves its metadata log, even
when it stops in order.
"""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.batch.header import MAGIC, BatchHeader
from fencepost.log.dump.indexes import OFFSET_ENTRY, TIME_ENTRY, iter_index
from fencepost.log.verify.files import OpenFile
from fencepost.log.verify.problems import Problem, Severity

Entries = Iterator[tuple[int, tuple[int, ...] | None]]


class IndexCheck:
    """One index of one segment; `file` is open as long as the check goes on."""

    def __init__(self, path: str, file: OpenFile, entry_bytes: int, entries: Entries) -> None:
        self._path = path
        self._entries = entries
        self._entry_bytes = entry_bytes
        self._file = file
        self._next: tuple[int, int, int] | None = None
        """Position and both fields of the entry that is to be looked at next."""
        self._advance()

    def _problem(self, position: int | None, text: str) -> Problem:
        return Problem(self._path, position, Severity.WARNING, "index", text)

    def _advance(self) -> None:
        position, entry = next(self._entries, (0, None))
        self._next = None if entry is None else (position, entry[0], entry[1])

    def _check_size(self) -> Iterator[Problem]:
        left = self._file.size() % self._entry_bytes
        if left:
            yield self._problem(self._file.size() - left, f"{left} bytes are left of an entry")


class OffsetIndexCheck(IndexCheck):
    """`<base>.index`."""

    def __init__(self, path: str, file: OpenFile, base_offset: int) -> None:
        super().__init__(path, file, OFFSET_ENTRY.size, iter_index(file, OFFSET_ENTRY))
        self._base = base_offset

    def batch(self, position: int, header: BatchHeader) -> Iterator[Problem]:
        """A batch of the segment, in order."""
        while self._next is not None:
            at, relative, batch_position = self._next
            if batch_position > position:
                return
            named = self._base + relative
            if batch_position < position:
                yield self._problem(at, f"no batch begins at byte {batch_position} of the segment")
            elif named != header.last_offset:
                reason = (
                    f"byte {position} of the segment has offsets"
                    f" {header.base_offset}-{header.last_offset}, not {named}"
                )
                yield self._problem(at, reason)
            self._advance()

    def end(self, size_bytes: int) -> Iterator[Problem]:
        """The segment ends at this size."""
        while self._next is not None:
            at, _, batch_position = self._next
            reason = f"no batch begins at byte {batch_position} of the segment of {size_bytes}"
            yield self._problem(at, reason)
            self._advance()
        yield from self._check_size()


class TimeIndexCheck(IndexCheck):
    """`<base>.timeindex`."""

    def __init__(self, path: str, file: OpenFile, base_offset: int) -> None:
        super().__init__(path, file, TIME_ENTRY.size, iter_index(file, TIME_ENTRY))
        self._base = base_offset
        self._largest_ms = -1
        self._last_ms = -1
        self._has_messages = False

    def batch(self, position: int, header: BatchHeader) -> Iterator[Problem]:
        """A batch of the segment, in order."""
        if header.magic < MAGIC:
            self._has_messages = True  # entries may name records inside of a compressed message
        if self._has_messages or header.max_timestamp <= self._largest_ms:
            return
        self._largest_ms = header.max_timestamp
        relative = header.last_offset - self._base
        while self._next is not None:
            at, timestamp_ms, named = self._next
            if named > relative:
                return
            if named < relative or timestamp_ms != header.max_timestamp:
                yield self._wrong(at, timestamp_ms, named)
            self._last_ms = max(self._last_ms, timestamp_ms)
            self._advance()

    def end(self) -> Iterator[Problem]:
        """The segment ends."""
        if self._has_messages:
            return
        while self._next is not None:
            at, timestamp_ms, named = self._next
            yield self._wrong(at, timestamp_ms, named)
            self._last_ms = timestamp_ms
            self._advance()
        yield from self._check_size()
        if self._last_ms < self._largest_ms and not self._has_room():
            reason = f"ends before the segment's largest timestamp, {self._largest_ms}"
            yield self._problem(None, reason)

    def _has_room(self) -> bool:
        """Whether the file ends in an entry of zeros."""
        at = self._file.size() - TIME_ENTRY.size
        return at >= 0 and not any(self._file.read_at(TIME_ENTRY.size, at))

    def _wrong(self, at: int, timestamp_ms: int, named: int) -> Problem:
        reason = (
            f"offset {self._base + named} is not where timestamp {timestamp_ms} first is the"
            " largest"
        )
        return self._problem(at, reason)
