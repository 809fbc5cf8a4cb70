"""One direction of a TCP connection, put in order: bytes, and gaps where bytes are missing.

Segments come as they were captured: again (retransmissions), overlapping, out of order, cut by the
capture's snapshot length, or not at all. The first copy of a byte counts. What comes too early is
held back until the hole before it is filled, or until it is clear that it never will be:

* the receiver has acknowledged bytes behind the hole, and PATIENCE more segments did not fill it;
* more is held back than `held_bytes_max`;
* the connection or the capture has ended (`flush`).

Without a SYN the stream begins with the first segment seen. Nothing here does I/O.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, NamedTuple

PATIENCE: Final = 8
"""Segments that a capture may have behind the acknowledgement of one that it has still to show."""

WINDOW_BYTES_MAX: Final = 1 << 30
"""No receiver is further behind (RFC 7323); a number that is, is no acknowledgement."""

_WRAP = 1 << 32
_HALF = 1 << 31
_ENTRY_BYTES = 128  # what holding back one segment takes beside its bytes


class Gap(NamedTuple):
    """Bytes that were on the wire and are not in the capture."""

    size: int


class _Held(NamedTuple):
    position: int
    data: bytes
    lost: int


class Reassembler:
    """Orders the segments of one direction."""

    def __init__(self, held_bytes_max: int) -> None:
        self._held_bytes_max = held_bytes_max
        self._held: list[_Held] = []
        self._held_bytes = 0
        self._base: int | None = None  # sequence number of position 0
        self._position = 0  # of the next byte
        self._acknowledged = 0
        self._waited = 0

    @property
    def is_begun(self) -> bool:
        """Whether it is known where the stream begins."""
        return self._base is not None

    @property
    def held_bytes(self) -> int:
        """Memory that segments take which came too early."""
        return self._held_bytes

    def begin(self, sequence: int) -> None:
        """The stream's first byte has this sequence number."""
        self._base = sequence

    def push(self, sequence: int, data: bytes, size: int) -> list[bytes | Gap]:
        """Take a segment of `size` bytes, of which `data` were captured; what is in order now."""
        if size == 0:
            return []
        if self._base is None:
            self._base = sequence
        position = self._position + self._distance(sequence)
        found: list[bytes | Gap] = []
        if position <= self._position:
            self._take(found, position, data, size - len(data))
            self._take_held(found)
        else:
            self._hold(_Held(position, data, size - len(data)))
        if self._held and self._acknowledged > self._position:
            self._waited += 1
        while self._held and (self._waited > PATIENCE or self._held_bytes > self._held_bytes_max):
            self._skip_hole(found)
        return found

    def acknowledge(self, sequence: int) -> None:
        """The receiver has all bytes before this sequence number."""
        if self._base is not None:
            position = self._position + self._distance(sequence)
            if position <= self._position + WINDOW_BYTES_MAX:
                self._acknowledged = max(self._acknowledged, position)

    def has(self, sequence: int) -> bool:
        """Whether all bytes before this sequence number have come out, as data or as gaps."""
        return self._base is None or not 0 < self._distance(sequence) <= WINDOW_BYTES_MAX

    def give_up_to(self, sequence: int) -> list[bytes | Gap]:
        """What is there before this sequence number, with gaps for what is not."""
        found: list[bytes | Gap] = []
        while self._held and not self.has(sequence):
            self._skip_hole(found)
        if not self.has(sequence):
            gap = self._distance(sequence)
            found.append(Gap(gap))
            self._position += gap
        return found

    def flush(self) -> list[bytes | Gap]:
        """Everything that was held back, with the gaps that are left."""
        found: list[bytes | Gap] = []
        while self._held:
            self._skip_hole(found)
        return found

    def _distance(self, sequence: int) -> int:
        """How far ahead of the next byte a sequence number is; these wrap around."""
        assert self._base is not None
        expected = self._base + self._position
        return (sequence - expected + _HALF) % _WRAP - _HALF

    def _take(self, found: list[bytes | Gap], position: int, data: bytes, lost: int) -> None:
        """Move on by what is new in a segment that does not begin beyond the next byte."""
        known = self._position - position
        if known < len(data):
            found.append(data[known:])
            self._position += len(data) - known
            known = len(data)
        if known < len(data) + lost:
            gap = len(data) + lost - known
            found.append(Gap(gap))
            self._position += gap

    def _hold(self, entry: _Held) -> None:
        at = bisect_left(self._held, entry.position, key=lambda one: one.position)
        if at < len(self._held) and self._held[at].position == entry.position:
            if len(self._held[at].data) >= len(entry.data):
                return
            self._held_bytes -= len(self._held[at].data) + _ENTRY_BYTES
            self._held[at] = entry
        else:
            self._held.insert(at, entry)
        self._held_bytes += len(entry.data) + _ENTRY_BYTES

    def _take_held(self, found: list[bytes | Gap]) -> None:
        done = 0
        for entry in self._held:
            if entry.position > self._position:
                break
            self._take(found, entry.position, entry.data, entry.lost)
            self._held_bytes -= len(entry.data) + _ENTRY_BYTES
            done += 1
        if done:
            del self._held[:done]
            self._waited = 0

    def _skip_hole(self, found: list[bytes | Gap]) -> None:
        found.append(Gap(self._held[0].position - self._position))
        self._position = self._held[0].position
        self._take_held(found)
