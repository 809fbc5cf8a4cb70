"""Offset and time index of a whole segment, made while its batches pass by from the first on.

The rule is that of appending (`Segment.note_append`): a batch gets an entry when more than
`index.interval.bytes` have passed since the last one.
"""

from __future__ import annotations

from fencepost.batch.header import BatchHeader
from fencepost.log.offset_index import OffsetIndex
from fencepost.log.time_index import NO_TIMESTAMP, TimeIndex, TimestampOffset


class IndexBuilder:
    """Indexes for the segment that begins at `base_offset`, of the batches added so far."""

    __slots__ = (
        "_base_offset",
        "_interval_bytes",
        "bytes_since_index",
        "index",
        "newest",
        "time_index",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self.index = OffsetIndex()
        self.time_index = TimeIndex()
        self.newest = NO_TIMESTAMP
        """The largest timestamp."""
        self.bytes_since_index = 0
        """Size of the batches behind the one of the last entry, that one included."""

    def add(self, position: int, header: BatchHeader) -> None:
        """The next batch, which begins at `position`."""
        relative = header.last_offset - self._base_offset
        if header.max_timestamp > self.newest.timestamp_ms:
            self.newest = TimestampOffset(header.max_timestamp, relative)
        if self.bytes_since_index > self._interval_bytes:
            self.index.append(relative, position)
            self.time_index.maybe_append(*self.newest)
            self.bytes_since_index = 0
        self.bytes_since_index += header.size_bytes
