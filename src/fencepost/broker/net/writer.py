"""How a connection's output reaches its client: the one place that knows what is under it.

A connection gives small output to `write`, whole, and large output to `write_some`, which takes
what it can from the front. What is under it decides how:

* `TransportWriter` gives everything to the asyncio transport, in chunks, so that it says when the
  socket takes bytes again. That is right for every transport, also for one that encrypts.
* `TlsWriter` gives TLS chunks, which become records and leave together.
* `SocketWriter` is for a transport that passes bytes on as they are. It writes a vector straight to
  the socket while the transport has nothing left to write, so that log data is not copied on its
  way out. Behind a layer that encrypts that would put plain bytes among its records.

`writer_for` chooses: straight to the socket only where nothing stands between.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

Buffer = bytes | bytearray | memoryview

CHUNK_BYTES: Final = 64 * 1024
"""What the transport is given, to be told when the socket takes bytes again."""
VECTOR_PARTS: Final = 512
"""Parts of one vector; systems allow 1024."""
TLS_VECTOR_BYTES: Final = 4 * CHUNK_BYTES
"""What is encrypted before any of it is sent. Larger sends cost less for a byte, but of a client
that reads slowly all of this may wait encrypted."""


class Writer(Protocol):
    """What takes a connection's output."""

    write: Callable[[Buffer], None]
    """Takes all of a small output."""

    def write_some(self, parts: deque[Buffer], most_bytes: int) -> int:
        """Take what it can from the front of `parts`, which stay as they are, and no more than
        `most_bytes`; how many bytes.

        OSError if the connection is broken.
        """
        ...


class TransportWriter:
    """Over any asyncio transport."""

    __slots__ = ("_transport", "write")

    def __init__(self, transport: Any) -> None:
        transport.set_write_buffer_limits(high=CHUNK_BYTES // 2, low=0)
        self._transport = transport
        self.write: Callable[[Buffer], None] = transport.write

    def write_some(self, parts: deque[Buffer], most_bytes: int) -> int:
        """Give the transport a chunk, after which it pauses the connection's writing."""
        chunk = memoryview(parts[0])[: min(CHUNK_BYTES, most_bytes)]
        self._transport.write(chunk)
        return len(chunk)


class TlsWriter(TransportWriter):
    """Over TLS."""

    __slots__ = ()

    def write_some(self, parts: deque[Buffer], most_bytes: int) -> int:
        """Give it as much as is sent at once, or a chunk if the socket is full."""
        can_send = self._transport.get_write_buffer_size() == 0
        front = _front(parts, min(TLS_VECTOR_BYTES if can_send else CHUNK_BYTES, most_bytes))
        self._transport.write_chunks(_chunks(front))
        return sum(map(len, front))


class SocketWriter(TransportWriter):
    """Over a transport that passes bytes on as they are to the socket `fd`."""

    __slots__ = ("_fd",)

    def __init__(self, transport: Any, fd: int) -> None:
        super().__init__(transport)
        self._fd = fd

    def write_some(self, parts: deque[Buffer], most_bytes: int) -> int:
        """Give a vector to the socket; if that is full, a chunk to the transport, which waits."""
        sent_bytes = write_past(self._transport, self._fd, _front(parts, most_bytes))
        return sent_bytes or super().write_some(parts, most_bytes)


def write_past(transport: Any, fd: int, vector: Sequence[Buffer]) -> int:
    """Write to the transport's socket `fd` without the transport; how many bytes. None if the
    socket is full, or if the transport has something left to write, which comes first.

    OSError if the connection is broken.
    """
    if transport.get_write_buffer_size() == 0:
        try:
            return os.writev(fd, vector)
        except (BlockingIOError, InterruptedError):
            pass
    return 0


def _front(parts: deque[Buffer], most_bytes: int) -> list[Buffer]:
    """So many bytes of the first parts, and no more parts than a vector may have."""
    vector: list[Buffer] = []
    for part in parts:
        vector.append(part)
        most_bytes -= len(part)
        if most_bytes <= 0 or len(vector) == VECTOR_PARTS:
            break
    if most_bytes < 0:
        vector[-1] = memoryview(vector[-1])[:most_bytes]
    return vector


def _chunks(parts: list[Buffer]) -> Iterator[Buffer]:
    """The parts as chunks; small ones are joined, as each write becomes records of its own."""
    chunk: list[Buffer] = []
    left_bytes = CHUNK_BYTES
    for part in parts:
        rest = memoryview(part)
        while rest:
            chunk.append(rest[:left_bytes])
            rest = rest[left_bytes:]
            left_bytes -= len(chunk[-1])
            if not left_bytes:
                yield _joined(chunk)
                chunk, left_bytes = [], CHUNK_BYTES
    if chunk:
        yield _joined(chunk)


def _joined(parts: list[Buffer]) -> Buffer:
    return parts[0] if len(parts) == 1 else b"".join(parts)


def writer_for(transport: asyncio.BaseTransport) -> Writer:
    """The writer that suits what is under the connection."""
    if transport.get_extra_info("tls") is not None:
        return TlsWriter(transport)
    sock = transport.get_extra_info("socket")
    if sock is None or transport.get_extra_info("sslcontext") is not None:
        return TransportWriter(transport)
    return SocketWriter(transport, sock.fileno())
