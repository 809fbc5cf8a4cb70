"""The sparse time index of a segment: from a timestamp to an offset before which all are older.

File layout (`<base>.timeindex`), entries of 12 bytes, big-endian:

    0  int64  the largest timestamp of the segment up to that batch, strictly increasing
    8  int32  last offset of the batch that has it, relative to the base offset, never decreasing

An entry is made together with each entry of the offset index if the largest timestamp has grown,
and one when the segment is closed, so that the last entry of a closed segment holds its largest
timestamp. Kept in memory for the active segment, like the offset index.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import ge, gt
from struct import Struct
from typing import Final, NamedTuple

from fencepost.log.errors import CorruptFileError

_ENTRY = Struct(">qI")
ENTRY_BYTES: Final = _ENTRY.size
_SIGN_BIT: Final = 1 << 31


class TimestampOffset(NamedTuple):
    """A timestamp and the relative offset of the batch that has it."""

    timestamp_ms: int
    relative_offset: int


NO_TIMESTAMP: Final = TimestampOffset(-1, 0)


class TimeIndex:
    """(timestamp, relative offset) pairs in two parallel arrays."""

    __slots__ = ("offsets", "timestamps")

    def __init__(self) -> None:
        self.timestamps = array("q")
        self.offsets = array("I")

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def size_bytes(self) -> int:
        """Bytes of the file, and about the bytes of memory."""
        return len(self.timestamps) * ENTRY_BYTES

    def maybe_append(self, timestamp_ms: int, relative_offset: int) -> None:
        """Add an entry unless the timestamp is not larger than the last one's."""
        if timestamp_ms > (self.timestamps[-1] if self.timestamps else -1):
            self.timestamps.append(timestamp_ms)
            self.offsets.append(relative_offset)

    def floor(self, timestamp_ms: int) -> TimestampOffset:
        """The last entry with a timestamp not above `timestamp_ms`; (-1, 0) if there is none."""
        at = bisect_right(self.timestamps, timestamp_ms)
        return (
            TimestampOffset(self.timestamps[at - 1], self.offsets[at - 1]) if at else NO_TIMESTAMP
        )

    def last(self) -> TimestampOffset:
        """The last entry; (-1, 0) if there is none."""
        return (
            TimestampOffset(self.timestamps[-1], self.offsets[-1]) if self.offsets else NO_TIMESTAMP
        )

    def truncate(self, relative_offset: int) -> None:
        """Forget entries at or behind the offset."""
        at = bisect_left(self.offsets, relative_offset)
        del self.timestamps[at:]
        del self.offsets[at:]

    def encode(self) -> bytes:
        """The file's content."""
        return b"".join(map(_ENTRY.pack, self.timestamps, self.offsets))

    @classmethod
    def decode(cls, path: str, data: bytes) -> TimeIndex:
        """The index in `data`. CorruptFileError."""
        if len(data) % ENTRY_BYTES:
            raise CorruptFileError(path, f"has {len(data)} bytes, not whole entries")
        entries = list(_ENTRY.iter_unpack(data))
        while entries and entries[-1] == (0, 0):
            entries.pop()
        index = cls()
        index.timestamps = array("q", [timestamp for timestamp, _ in entries])
        index.offsets = array("I", [offset for _, offset in entries])
        if any(map(ge, index.timestamps, islice(index.timestamps, 1, None))):
            raise CorruptFileError(path, "has timestamps that do not increase")
        if any(map(gt, index.offsets, islice(index.offsets, 1, None))):
            raise CorruptFileError(path, "has offsets that decrease")
        if index.offsets and index.offsets[-1] >= _SIGN_BIT:
            raise CorruptFileError(path, "has an offset of more than 31 bits")
        return index
