"""Frames out of one direction of a connection, also of one that is joined late or has gaps.

In sync, a frame is a length and as many bytes. A cutter that begins in the middle, or misses bytes,
is out of sync and looks for the next place where a frame could begin; it reports what it passes
over. When the bytes that are missing all belong to one frame, the cutter knows where the next one
begins and stays in sync; of the frame it gives what it has.

What can begin a frame is for the direction to say (`FrameDetector`). Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from fencepost.wire.frame import LENGTH_BYTES

_TLS = b"\x16\x03"  # a handshake record of any version


class FrameDetector(Protocol):
    """What frames of one direction look like."""

    head_bytes: int
    """Bytes from a frame's begin that `fits` looks at."""

    def fits(self, buf: bytearray, pos: int) -> bool:
        """Whether a frame can begin here, for one who is in sync."""

    def find(self, buf: bytearray, pos: int) -> int:
        """The first place from `pos` on where a frame seems to begin, for one who is not.

        Without one, the first place that too few bytes are known of to say.
        """


class Cut(NamedTuple):
    """A frame with its length prefix; `missing` bytes of it are not at its end."""

    data: bytes
    missing: int = 0


class Skipped(NamedTuple):
    """Bytes that belong to no frame, captured or not, and why."""

    size: int
    reason: str


class FrameCutter:
    """Cuts one direction; `in_sync` says whether its first byte begins a frame."""

    def __init__(self, detector: FrameDetector, frame_bytes_max: int, *, in_sync: bool) -> None:
        self._detector = detector
        self._frame_bytes_max = frame_bytes_max
        self._in_sync = in_sync
        self._buffer = bytearray()
        self._rest = 0  # bytes to come of a frame that was given out with bytes missing
        self._skipped = 0
        self._reason = "" if in_sync else "joined in the middle"

    @property
    def held_bytes(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Cut | Skipped]:
        """What is whole now."""
        if self._rest:
            dropped = min(self._rest, len(data))
            self._rest -= dropped
            data = data[dropped:]
        self._buffer += data
        while self._buffer:
            if not self._in_sync and not self._resynchronize():
                return
            if self._skipped:
                yield self._report()
            if len(self._buffer) < self._detector.head_bytes and not self._is_small_frame():
                return
            size = self._frame_bytes()
            if not size >= LENGTH_BYTES or not self._is_plausible(size):
                is_tls = self._buffer.startswith(_TLS)
                self._lose_sync("TLS" if is_tls else "no frame of Kafka's")
                continue
            if len(self._buffer) < size:
                return
            frame = bytes(memoryview(self._buffer)[:size])
            del self._buffer[:size]
            yield Cut(frame)

    def gap(self, size: int) -> Iterator[Cut | Skipped]:
        """Take note that `size` bytes are missing here."""
        if self._rest >= size:
            self._rest -= size
            return
        size -= self._rest
        self._rest = 0
        has_head = self._in_sync and len(self._buffer) >= self._detector.head_bytes
        if has_head and self._is_plausible(self._frame_bytes()):
            left = self._frame_bytes() - len(self._buffer)
            yield Cut(bytes(self._buffer), left)
            self._buffer.clear()
            self._rest = max(0, left - size)
            size = max(0, size - left)
            if size == 0:
                return
        self._skipped += len(self._buffer) + size
        self._buffer.clear()
        if self._in_sync:
            self._lose_sync("missing in the capture")

    def close(self) -> Iterator[Cut | Skipped]:
        """What is left at the end."""
        if self._buffer and self._in_sync:
            self._reason = "the end of a frame is missing"
        self._skipped += len(self._buffer)
        self._buffer.clear()
        if self._skipped:
            yield self._report()

    def _frame_bytes(self) -> int:
        return LENGTH_BYTES + int.from_bytes(self._buffer[:LENGTH_BYTES], "big", signed=True)

    def _is_small_frame(self) -> bool:
        """Whether a frame that is smaller than a usual head is whole."""
        if len(self._buffer) < LENGTH_BYTES:
            return False
        return self._frame_bytes() <= len(self._buffer)

    def _is_plausible(self, size: int) -> bool:
        return size <= LENGTH_BYTES + self._frame_bytes_max and self._detector.fits(self._buffer, 0)

    def _lose_sync(self, reason: str) -> None:
        self._in_sync = False
        self._reason = reason
        if self._buffer:  # whatever stands first is not a frame
            del self._buffer[:1]
            self._skipped += 1

    def _resynchronize(self) -> bool:
        """Drop what comes before the next place that looks like a frame; whether there is one."""
        position = self._detector.find(self._buffer, 0)
        self._skipped += position
        del self._buffer[:position]
        if len(self._buffer) < self._detector.head_bytes:
            return False
        self._in_sync = True
        return True

    def _report(self) -> Skipped:
        skipped = Skipped(self._skipped, self._reason)
        self._skipped = 0
        return skipped
