"""The sparse offset index of a segment: from an offset to a place in the file near it.

File layout (`<base>.index`), entries of 8 bytes, big-endian, strictly increasing in both fields:

    0  int32  last offset of a batch, relative to the segment's base offset
    4  int32  where that batch begins in the segment file

An entry is made for the first batch that is appended after more than `index.interval.bytes` since
the last entry, so the first batch of a segment has none. A look-up of an offset starts at the last
entry not above it and walks batch headers from there.

The index of the active segment lives in memory and is written out when the segment is closed: it
can always be made again from the log, and recovery does so. Kafka preallocates the file and maps
it; we write it at its final size, which is what Kafka leaves after closing it, too. Entries of zero
at the end, which a crashed Kafka leaves, are passed over.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import islice
from operator import ge
from typing import Final

from fencepost.log.errors import CorruptFileError

ENTRY_BYTES: Final = 8
RELATIVE_MAX: Final = (1 << 31) - 1
"""How far an entry of Kafka's can reach beyond the base offset of its segment."""
POSITION_MAX: Final = (1 << 31) - 1
"""How far an entry of Kafka's can point into a segment, and so the longest segment."""
_SIGN_BIT: Final = 1 << 31


class OffsetIndex:
    """(relative offset, position) pairs in two parallel arrays."""

    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.offsets = array("I")
        self.positions = array("I")

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def size_bytes(self) -> int:
        """Bytes of the file, and about the bytes of memory."""
        return len(self.offsets) * ENTRY_BYTES

    def append(self, relative_offset: int, position: int) -> None:
        """Add an entry behind the others."""
        assert not self.offsets or (
            relative_offset > self.offsets[-1] and position > self.positions[-1]
        ), f"({relative_offset}, {position}) behind ({self.offsets[-1]}, {self.positions[-1]})"
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def floor(self, relative_offset: int) -> tuple[int, int]:
        """The last entry at or below the offset as (offset, position); (-1, 0) if none is."""
        at = bisect_right(self.offsets, relative_offset)
        return (self.offsets[at - 1], self.positions[at - 1]) if at else (-1, 0)

    def floor_position(self, position: int) -> tuple[int, int]:
        """The last entry that begins at or before `position`; (-1, 0) if none does."""
        at = bisect_right(self.positions, position)
        return (self.offsets[at - 1], self.positions[at - 1]) if at else (-1, 0)

    def truncate(self, position: int) -> None:
        """Forget entries of batches that begin at or behind `position`."""
        at = bisect_left(self.positions, position)
        del self.offsets[at:]
        del self.positions[at:]

    def encode(self) -> bytes:
        """The file's content."""
        flat = array("I", bytes(len(self.offsets) * ENTRY_BYTES))
        flat[0::2] = self.offsets
        flat[1::2] = self.positions
        return _swapped(flat).tobytes()

    @classmethod
    def decode(cls, path: str, data: bytes, log_bytes: int) -> OffsetIndex:
        """The index in `data`, of a segment file of `log_bytes`. CorruptFileError."""
        if len(data) % ENTRY_BYTES:
            raise CorruptFileError(path, f"has {len(data)} bytes, not whole entries")
        flat = _swapped(array("I", data))
        index = cls()
        index.offsets = flat[0::2]
        index.positions = flat[1::2]
        while index.positions and index.positions[-1] == 0:
            index.offsets.pop()
            index.positions.pop()
        if not _increases(index.offsets) or not _increases(index.positions):
            raise CorruptFileError(path, "has entries that do not increase")
        if index.offsets and (index.offsets[-1] >= _SIGN_BIT or index.positions[-1] >= log_bytes):
            raise CorruptFileError(path, f"points beyond the {log_bytes} bytes of its segment")
        return index


def _swapped(flat: array[int]) -> array[int]:
    assert flat.itemsize == 4
    if sys.byteorder == "little":
        flat.byteswap()
    return flat


def _increases(values: Sequence[int]) -> bool:
    return not any(map(ge, values, islice(values, 1, None)))
