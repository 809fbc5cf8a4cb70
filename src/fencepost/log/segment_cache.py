"""Bounds open files and loaded indexes for the segments of a whole log directory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, Protocol

DIRTY_TIMES: Final = 4
"""How many times as many files as there may be otherwise may be open and not synced yet."""


FILES_PER_MAX: Final = DIRTY_TIMES + 1
"""How many times `files_max` files there are at most: not synced yet, and deferred."""


class CachedSegment(Protocol):
    """A segment, as far as it matters here."""

    @property
    def releasable_index_bytes(self) -> int:
        """What its loaded indexes take that can be loaded again."""
        ...

    @property
    def is_dirty(self) -> bool:
        """Whether it has data that is not durable."""
        ...

    @property
    def is_pinned(self) -> bool:
        """Whether its file must stay open."""
        ...

    def settle(self) -> None:
        """Make it durable, on the spot. OSError."""
        ...

    def release(self) -> None:
        """Close its file and let go of its indexes."""
        ...

    def close_file(self) -> None:
        """Close its file."""
        ...


class SegmentCache:
    """Bounds what the segments of a log directory keep open and in memory.

    Segments are released in the order in which they were last read, or became durable. A segment
    with appended data that is not yet durable keeps its file beyond `files_max`, for the flush that
    will come. When there are `DIRTY_TIMES` as many, because thousands of partitions were written to
    since their last flush, the oldest are synced on the spot and closed.

    Those that could not be released when it was their turn are not looked at again until they are
    durable: there may be a thousand of them, and a look at all of them with every file that is
    opened took a sixth of the time of a broker with a thousand partitions.
    """

    def __init__(self, files_max: int = 256, index_bytes_max: int = 16 << 20) -> None:
        self._files_max = files_max
        self._index_bytes_max = index_bytes_max
        self._index_bytes = 0
        self._used: OrderedDict[CachedSegment, int] = OrderedDict()
        self._candidates: OrderedDict[CachedSegment, None] = OrderedDict()
        self.deferred = 0
        """Open files of rolls that wait for the next flush to be synced."""

    def __len__(self) -> int:
        return len(self._used)

    def touch(self, segment: CachedSegment) -> None:
        """The segment has just opened or loaded something, or is being read. OSError."""
        size = segment.releasable_index_bytes
        self._index_bytes += size - self._used.get(segment, 0)
        self._used[segment] = size
        self._used.move_to_end(segment)
        self._candidates[segment] = None
        self._candidates.move_to_end(segment)
        self._trim(segment)

    def settled(self, segments: Iterable[CachedSegment]) -> None:
        """These have become durable. OSError."""
        for segment in segments:
            if segment in self._used and segment not in self._candidates:
                self._candidates[segment] = None
        self._trim()

    def forget(self, segment: CachedSegment) -> bool:
        """The segment is closed, or another cache's business; whether it held anything."""
        if segment not in self._used:
            return False
        self._index_bytes -= self._used.pop(segment)
        self._candidates.pop(segment, None)
        return True

    def _trim(self, keep: CachedSegment | None = None) -> None:
        """Release what is too much."""
        while self._candidates and self._is_over():
            segment = next(iter(self._candidates))
            if segment is keep:  # the latest of all: there is no other
                break
            if segment.is_dirty or segment.is_pinned:
                del self._candidates[segment]
            else:
                self.forget(segment)
                segment.release()
        if len(self._used) > DIRTY_TIMES * self._files_max:
            self._settle(keep)

    def _settle(self, keep: CachedSegment | None) -> None:
        """Make the oldest durable, as many as there may be clean ones. OSError."""
        for segment in list(self._used)[: self._files_max]:
            if segment is not keep and not segment.is_pinned:
                segment.settle()
                self.forget(segment)
                segment.release()

    @property
    def defers_too_many(self) -> bool:
        """Whether what a roll has written is to be synced and closed instead of deferred."""
        return self.deferred > self._files_max

    @property
    def deferred_max(self) -> int:
        """How many files of rolls, or of logs that are being closed, may wait for a sync."""
        return self._files_max

    def close_idle(self) -> None:
        """Close all files that nothing waits for and that can be opened again; any time.

        A reader that holds on to a segment opens it again; indexes stay.
        """
        for segment in self._used:
            if not segment.is_dirty and not segment.is_pinned:
                segment.close_file()

    def _is_over(self) -> bool:
        return len(self._used) > self._files_max or self._index_bytes > self._index_bytes_max
