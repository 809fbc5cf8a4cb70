"""Where bytes come from: a file, a pipe, hex digits; frames one by one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

from fencepost.cli.failures import InputError
from fencepost.cli.wire.convert.hex_text import parse_hex
from fencepost.wire.frame import LENGTH_BYTES

FRAME_BYTES_MAX = 100 * 1024 * 1024
"""What a broker takes at most unless configured otherwise (`socket.request.max.bytes`)."""

_REST_BYTES_MAX = 1 << 20
"""Enough of what is no frame to say what it may be."""


@contextmanager
def open_bytes(path: str | None, hex_text: str | None) -> Iterator[BinaryIO]:
    """The bytes a command is to read: those of a file, of stdin (`-` or nothing), or of hex text.

    Hex text `-` is read from stdin. Raises OSError and InputError.
    """
    if hex_text is not None:
        yield BytesIO(parse_hex(sys.stdin.read() if hex_text == "-" else hex_text))
    elif path in (None, "-"):
        yield sys.stdin.buffer
    else:
        assert path is not None
        with Path(path).open("rb") as file:
            yield file


class Frame(NamedTuple):
    """One frame with its length prefix, and where it began in the input."""

    number: int
    offset: int
    data: bytes

    @property
    def where(self) -> str:
        """Its place, for people."""
        return f"frame {self.number} at byte {self.offset}"


class NoFrameError(InputError):
    """Here begins no frame, and so none behind it can be found either; `rest` is what is here."""

    def __init__(self, reason: str, rest: Frame) -> None:
        super().__init__(f"{rest.where}: {reason}")
        self.rest = rest


def iter_frames(stream: BinaryIO, frame_bytes_max: int = FRAME_BYTES_MAX) -> Iterator[Frame]:
    """The frames in `stream`, one in memory at a time.

    NoFrameError for a length that cannot be and for a last frame that is cut off.
    """
    offset = 0
    number = 0
    while prefix := read_all(stream, LENGTH_BYTES):
        size = int.from_bytes(prefix, "big", signed=True)
        is_length = len(prefix) == LENGTH_BYTES and 0 <= size <= frame_bytes_max
        data = read_all(stream, size if is_length else _REST_BYTES_MAX)
        frame = Frame(number, offset, prefix + data)
        if len(prefix) < LENGTH_BYTES:
            raise NoFrameError(f"{len(prefix)} bytes are no length of a frame", frame)
        if not is_length:
            reason = f"its length cannot be {size}, at most {frame_bytes_max} is allowed"
            raise NoFrameError(reason, frame)
        if len(data) < size:
            raise NoFrameError(f"{size} bytes should follow, {len(data)} do", frame)
        yield frame
        offset += LENGTH_BYTES + size
        number += 1


def read_all(stream: BinaryIO, size: int) -> bytes:
    """`size` bytes, or fewer at the end; never more memory than was really there."""
    parts = []
    left = size
    while left > 0 and (part := stream.read(min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def size_bytes(stream: BinaryIO) -> int | None:
    """The size of the file behind `stream`; None when it has none."""
    try:
        return os.fstat(stream.fileno()).st_size or None
    except (OSError, ValueError):
        return None
