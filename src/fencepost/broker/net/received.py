"""What has arrived on a connection and is not dispatched yet.

Bytes are received into a scratch buffer that all connections of a node share, behind the unfinished
tail of the connection, if it has one: only the tail is copied and kept. A frame too big for the
scratch buffer gets a buffer of its own that at most doubles whenever it is full, up to the frame's
end; so a length prefix costs no memory for bytes that have not been sent.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from fencepost.broker.net.memory_budget import MemoryBudget
from fencepost.broker.net.writer import Buffer

SCRATCH_SIZE_BYTES: Final = 256 * 1024
SMALL_FRAME_BYTES: Final = 64 * 1024
"""A tail up to this size is kept as it is; a longer one moves to a buffer of its own."""
RETAINED_BUFFER_BYTES: Final = 2 * 1024 * 1024
"""A buffer for long frames up to this size is kept for the next one, until the next sweep."""
YOUNGEST_FRAME_S: Final = 0.1
"""A frame's rate is not known before it is so old."""

_LENGTH = Struct(">i")


class Received:
    """That of one connection; see the module docstring."""

    __slots__ = ("_budget", "_filled", "_frame_began_s", "_own", "_own_view", "_scratch", "_tail")

    def __init__(self, scratch: memoryview, budget: MemoryBudget) -> None:
        self._scratch = scratch
        self._budget = budget
        self._tail: Buffer = b""  # the start of a frame, when it is short
        self._own: bytearray | None = None  # the buffer of a long frame
        self._own_view = memoryview(b"")
        self._filled = 0
        self._frame_began_s = 0.0

    def room(self, most_bytes: int) -> memoryview:
        """Where the next bytes are received: behind the unfinished frame, so many at most."""
        if self._own is not None:
            return self._own_view[self._filled : self._filled + most_bytes]
        tail = self._tail
        if tail:
            self._scratch[: len(tail)] = tail
        return self._scratch[len(tail) : len(tail) + most_bytes]

    def add(self, count_bytes: int) -> tuple[memoryview, int]:
        """So many bytes are in the `room`: a buffer that begins with a frame, and its end."""
        if self._own is not None:
            return self._own_view, self._filled + count_bytes
        return self._scratch, len(self._tail) + count_bytes

    def take_kept(self) -> tuple[memoryview, int] | None:
        """What is kept, in the same form, to be dispatched; None if there is nothing."""
        if self._own is not None:
            return self._own_view, self._filled
        if not self._tail:
            return None
        tail = self._tail
        self._set_tail(b"")
        return memoryview(bytearray(tail)), len(tail)

    def keep(
        self,
        view: memoryview,
        start: int,
        end: int,
        now_s: float,
        *,
        is_stalled: bool,
        frame_bytes_max: int,
    ) -> None:
        """Keep view[start:end] of what `add` or `take_kept` has returned: the start of a frame, or
        frames that wait if the connection `is_stalled`. May evict connections, this one as well."""
        left_bytes = end - start
        if start or (self._own is None and not self._tail):
            self._frame_began_s = now_s
        if self._own is not None:
            self._keep_in_own(start, end, frame_bytes_max)
        elif left_bytes <= SMALL_FRAME_BYTES or is_stalled:
            if left_bytes or self._tail:
                self._set_tail(bytes(view[start:end]))
        else:
            self._set_tail(b"")
            self._grow(view[start:end], frame_bytes_max)

    def rate(self, now_s: float) -> float | None:
        """Bytes per second of the frame that is arriving; None if none is."""
        arrived_bytes = len(self._tail) if self._own is None else self._filled
        if not arrived_bytes:
            return None
        return arrived_bytes / max(now_s - self._frame_began_s, YOUNGEST_FRAME_S)

    def drop(self) -> None:
        """Forget everything."""
        self._drop_own()
        self._set_tail(b"")

    def sweep(self) -> None:
        """Give back the buffer of a long frame that was dispatched."""
        if self._own is not None and self._filled == 0:
            self._drop_own()

    # -- inside ----------------------------------------------------------------------------

    def _set_tail(self, tail: Buffer) -> None:
        """Keep this much of a short frame."""
        more_bytes = len(tail) - len(self._tail)
        self._tail = tail
        if more_bytes:
            self._budget.add_incoming(more_bytes)

    def _keep_in_own(self, start: int, end: int, frame_bytes_max: int) -> None:
        left_bytes = end - start
        if start and left_bytes:
            self._own_view[:left_bytes] = self._own_view[start:end]
        self._filled = left_bytes
        if not left_bytes and len(self._own_view) > RETAINED_BUFFER_BYTES:
            self._drop_own()
        elif start and left_bytes < SMALL_FRAME_BYTES and not self._long_frame_ahead():
            self._set_tail(bytes(self._own_view[:left_bytes]))
            self._drop_own()
        elif left_bytes == len(self._own_view):
            self._grow(self._own_view, frame_bytes_max)

    def _long_frame_ahead(self) -> bool:
        """Whether the buffer holds the start of another long frame, or nothing (more may come)."""
        if self._filled < 4:
            return True
        (size_bytes,) = _LENGTH.unpack_from(self._own_view, 0)
        return bool(size_bytes > SMALL_FRAME_BYTES)

    def _grow(self, content: memoryview, frame_bytes_max: int) -> None:
        """Move to a buffer with room for as much again as has arrived, or for the frame."""
        have_bytes = len(content)
        (size_bytes,) = _LENGTH.unpack_from(content, 0)
        frame_bytes = 4 + max(0, min(size_bytes, frame_bytes_max))
        if frame_bytes <= have_bytes:  # whole frames that wait: reading is paused anyway
            frame_bytes = have_bytes + SMALL_FRAME_BYTES
        own = bytearray(min(frame_bytes, 2 * have_bytes))
        view = memoryview(own)
        view[:have_bytes] = content
        more_bytes = len(own) - len(self._own_view)
        self._own, self._own_view, self._filled = own, view, have_bytes
        self._budget.add_incoming(more_bytes)

    def _drop_own(self) -> None:
        self._budget.add_incoming(-len(self._own_view))
        self._own = None
        self._own_view = memoryview(b"")
        self._filled = 0
