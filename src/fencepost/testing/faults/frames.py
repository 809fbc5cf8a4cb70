"""Frames out of the bytes of either direction, kept whole with their length, as they are passed on.

What does not look like a frame is passed on as it comes, and so is everything behind it: its
receiver is to refuse it.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from fencepost.wire.frame import LENGTH_BYTES

MIN_REQUEST_BYTES: Final = 8
MIN_RESPONSE_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 256 * 1024 * 1024
"""What a proxy holds of one frame at most; longer ones pass without being looked at."""
_LENGTH: Final = struct.Struct(">i")
_REQUEST: Final = struct.Struct(">ihhih")
_CORRELATION_ID: Final = struct.Struct(">i")


class RequestHead(NamedTuple):
    """What every request says first."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


class FrameCutter:
    """Cuts one direction of a connection into frames."""

    def __init__(self, min_frame_bytes: int) -> None:
        self._min_bytes = min_frame_bytes
        self._pending = bytearray()
        self.is_raw = False
        """Whether these are no frames (any more)."""

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are whole with `data`; if `is_raw` then, the last one is none."""
        if self.is_raw:
            return [data]
        pending = self._pending
        pending += data
        frames: list[bytes] = []
        start = 0
        while len(pending) - start >= LENGTH_BYTES:
            (size_bytes,) = _LENGTH.unpack_from(pending, start)
            end = start + LENGTH_BYTES + size_bytes
            if not self._min_bytes <= size_bytes <= MAX_FRAME_BYTES:
                self.is_raw, end = True, len(pending)
            elif end > len(pending):
                break
            frames.append(bytes(memoryview(pending)[start:end]))
            start = end
        if start:
            del pending[:start]
        return frames


def request_head(frame: bytes) -> RequestHead:
    """The head of a request frame; one without a readable client id has none."""
    if len(frame) < _REQUEST.size:
        _, key, version, correlation_id = struct.unpack_from(">ihhi", frame)
        return RequestHead(key, version, correlation_id, None)
    _, key, version, correlation_id, letters = _REQUEST.unpack_from(frame)
    client_id = None
    if letters >= 0:
        client_id = frame[_REQUEST.size : _REQUEST.size + letters].decode(errors="replace")
    return RequestHead(key, version, correlation_id, client_id)


def correlation_id_of(frame: bytes) -> int:
    """The correlation id of a response frame."""
    found: int = _CORRELATION_ID.unpack_from(frame, LENGTH_BYTES)[0]
    return found
