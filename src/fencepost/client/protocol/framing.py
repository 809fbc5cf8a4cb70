"""Frames out of the bytes that a connection receives.

A frame is an int32 length and as many bytes. `FrameReader` serves both kinds of socket loop:

* one that receives into memory asks `get_buffer` where the next bytes go and says how many came to
  `buffer_updated`, as `asyncio.BufferedProtocol` does;
* one that is handed bytes gives them to `feed`.

A length is checked before anything is allocated for it, and memory grows with what has arrived, not
with what was announced: a peer that announces much and sends nothing costs nothing. A caller that
brings a `ReceiveBuffer` trusts the peer with as much as the bound allows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from fencepost.client.errors import ProtocolError
from fencepost.wire.frame import LENGTH_BYTES
from fencepost.wire.types import Buffer

MIN_RESPONSE_BYTES: Final = 4
"""A response has a correlation id, if nothing else."""
FIRST_ALLOCATION_BYTES: Final = 1 << 20
"""Memory for a frame that is longer doubles from here whenever it is full."""
BUFFER_STEP_BYTES: Final = 256 * 1024
"""What a ReceiveBuffer grows by multiples of."""

TLS_ALERT: Final = 0x1503
"""What a TLS record of an alert begins with: what is answered to a client without TLS."""
HTTP: Final = (b"http", b"<!do", b"<htm")
"""What an answer of an HTTP server begins with, in lower case; to a request line without a version
some send the document alone, as HTTP/0.9 has it."""

_LENGTH = struct.Struct(">i")


class ReceiveBuffer:
    """Memory that many responses are received into, one after the other.

    What was decoded from it (record blobs are views of it) is overwritten by the next response.
    """

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = bytearray()

    def view(self, size_bytes: int) -> memoryview:
        """`size_bytes` writable bytes; grown, never shrunk."""
        if len(self._bytes) < size_bytes:
            # A new object: the old one may still be looked at through views.
            # Rounded up, as sizes differ a little from response to response.
            self._bytes = bytearray(-(-size_bytes // BUFFER_STEP_BYTES) * BUFFER_STEP_BYTES)
        return memoryview(self._bytes)[:size_bytes]


class FrameReader:
    """Cuts a stream into frames of at most `max_frame_bytes`; see the module docstring.

    ProtocolError for a length that is out of bounds; nothing behind it can be read.
    """

    __slots__ = ("_filled", "_frame", "_head", "_host", "_max_bytes", "_min_bytes", "_size_bytes")

    def __init__(
        self,
        max_frame_bytes: int,
        min_frame_bytes: int = MIN_RESPONSE_BYTES,
        *,
        host: str | None = None,
    ) -> None:
        """Errors name `host`."""
        assert min_frame_bytes > 0, "an empty frame would be whole before it is received"
        self._host = host
        self._min_bytes = min_frame_bytes
        self._max_bytes = max_frame_bytes
        self._head = memoryview(bytearray(LENGTH_BYTES))
        self._frame: memoryview | None = None
        self._size_bytes: int | None = None  # None while the length is not whole
        self._filled = 0  # of the head, or else of the frame

    def get_buffer(self, receive_buffer: ReceiveBuffer | None = None) -> memoryview:
        """Where the next bytes of the stream go; never empty, and never beyond this frame.

        A frame goes into `receive_buffer` when its first bytes are asked for with one.
        """
        if self._size_bytes is None:
            return self._head[self._filled :]
        if self._frame is None:
            self._frame = (
                receive_buffer.view(self._size_bytes)
                if receive_buffer is not None
                else memoryview(bytearray(min(self._size_bytes, FIRST_ALLOCATION_BYTES)))
            )
        elif self._filled == len(self._frame):
            larger = memoryview(bytearray(min(self._size_bytes, 2 * self._filled)))
            larger[: self._filled] = self._frame
            self._frame = larger
        return self._frame[self._filled :]

    def buffer_updated(self, count: int) -> memoryview | None:
        """`count` bytes have come where `get_buffer` said; the frame, without length, if whole."""
        self._filled += count
        if self._size_bytes is None:
            if self._filled == LENGTH_BYTES:
                self._size_bytes = self._checked_size(self._head)
                self._filled = 0
            return None
        if self._filled < self._size_bytes:
            return None
        frame, self._frame, self._size_bytes, self._filled = self._frame, None, None, 0
        return frame

    def feed(self, data: Buffer) -> Iterator[memoryview]:
        """The frames that are whole with `data`; one that lies within it is a view of it."""
        rest = memoryview(data)
        while len(rest):
            if self._filled == 0 and self._size_bytes is None and len(rest) >= LENGTH_BYTES:
                end = LENGTH_BYTES + self._checked_size(rest)
                if end <= len(rest):
                    frame, rest = rest[LENGTH_BYTES:end], rest[end:]
                    yield frame
                    continue
            target = self.get_buffer()
            count = min(len(target), len(rest))
            target[:count] = rest[:count]
            rest = rest[count:]
            whole = self.buffer_updated(count)
            if whole is not None:
                yield whole

    def _checked_size(self, head: memoryview) -> int:
        (size_bytes,) = _LENGTH.unpack_from(head)
        if not self._min_bytes <= size_bytes <= self._max_bytes:
            text = (
                f"announced a frame of {size_bytes} bytes; "
                f"allowed are {self._min_bytes} to {self._max_bytes}"
            )
            if bytes(head[:LENGTH_BYTES]).lower() in HTTP:
                text = "the answer is HTTP, not Kafka's protocol: give the address of a broker"
            elif size_bytes >> 16 == TLS_ALERT:
                wanted = "security.protocol=SSL or SASL_SSL"
                text = f"the answer is a TLS alert: this listener wants {wanted}"
            raise ProtocolError(text, host=self._host)
        return int(size_bytes)
