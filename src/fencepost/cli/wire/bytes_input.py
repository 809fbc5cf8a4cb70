"""Where bytes come from: a file, a pipe, hex digits in many dresses; frames one by one."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

from fencepost.cli.wire.failures import InputError

FRAME_BYTES_MAX = 100 * 1024 * 1024
"""What a broker takes at most unless configured otherwise (`socket.request.max.bytes`)."""
LENGTH_BYTES = 4

_PROGRESS_FROM_BYTES = 32 * 1024 * 1024
_PROGRESS_EVERY_S = 0.2
# Offset columns: `0x0010:` and `00000010:` (tcpdump, xxd), `00000010  ` (hexdump), `0010   `.
_OFFSET = re.compile(r"\s*(?:0x)?([0-9a-fA-F]{4,16})(:\s*|\s{2,})(?=\S)")
_LAST_OFFSET = re.compile(r"\s*[0-9a-fA-F]{7,16}\s*")
_PAIRS = re.compile(r"(?:[0-9a-fA-F]{2}(?:\s{1,2}|$)){1,16}")
_DUMP_STEP = 16
_DRESS = re.compile(r"0x|\\x|[\s:,]", re.IGNORECASE)


def parse_hex(text: str) -> bytes:
    """The bytes behind hex digits; InputError when something else is among them.

    Blanks, colons, commas, `0x` and `\\x` are passed over. When every line begins with an offset,
    as in dumps of tcpdump, xxd and hexdump, so are offsets and the text beside the digits.
    """
    digits = _DRESS.sub("", _without_dump_columns(text))
    try:
        return bytes.fromhex(digits)
    except ValueError:
        pass
    wrong = re.search(r"[^0-9a-fA-F]", digits)
    if wrong is None:
        raise InputError(f"an odd number of hex digits ({len(digits)})")
    raise InputError(f"{wrong[0]!r} is no hex digit (after {wrong.start()} digits)")


def _without_dump_columns(text: str) -> str:
    """Only the digits of a dump; any other text as it is."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and _LAST_OFFSET.fullmatch(lines[-1]):
        lines.pop()  # hexdump ends with the size
    found = [_OFFSET.match(line) for line in lines]
    matches = [match for match in found if match is not None]
    if not lines or len(matches) < len(lines):
        return text
    has_colons = all(match[2].startswith(":") for match in matches)
    offsets = [int(match[1], 16) for match in matches]
    steps = {after - before for before, after in pairwise(offsets)}
    if not has_colons and steps != {_DUMP_STEP}:
        return text
    return "".join(_digits(match.string[match.end() :], has_colons) for match in matches)


def _digits(columns: str, has_colons: bool) -> str:
    """The digits of a dump's line, without what they mean as text."""
    if has_colons:
        return re.split(r"\s{2,}", columns, maxsplit=1)[0]
    pairs = _PAIRS.match(columns)
    return columns if pairs is None else pairs[0]


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


def iter_frames(stream: BinaryIO, frame_bytes_max: int = FRAME_BYTES_MAX) -> Iterator[Frame]:
    """The frames in `stream`, one in memory at a time.

    InputError for a length that cannot be and for a last frame that is cut off.
    """
    offset = 0
    number = 0
    while prefix := read_all(stream, LENGTH_BYTES):
        where = f"frame {number} at byte {offset}"
        if len(prefix) < LENGTH_BYTES:
            raise InputError(f"{where}: {len(prefix)} bytes are no length of a frame")
        size = int.from_bytes(prefix, "big", signed=True)
        if not 0 <= size <= frame_bytes_max:
            raise InputError(
                f"{where}: its length cannot be {size}, at most {frame_bytes_max} is allowed"
            )
        data = read_all(stream, size)
        if len(data) < size:
            raise InputError(f"{where}: {size} bytes should follow, {len(data)} do")
        yield Frame(number, offset, prefix + data)
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


class Progress:
    """Percent on stderr, for large inputs and people who are looking."""

    def __init__(self, total_bytes: int | None) -> None:
        self._total = total_bytes or 0
        self._is_shown = self._total >= _PROGRESS_FROM_BYTES and sys.stderr.isatty()
        self._next = 0.0

    def show(self, done_bytes: int) -> None:
        """Say how much is done, if it is time again."""
        if self._is_shown and (now := time.monotonic()) >= self._next:
            self._next = now + _PROGRESS_EVERY_S
            percent = min(99, 100 * done_bytes // self._total)
            print(f"\r{percent:3} % of {self._total >> 20} MiB", end="", file=sys.stderr)

    def close(self) -> None:
        """Leave the line clean."""
        if self._is_shown and self._next:
            print("\r" + " " * 30 + "\r", end="", file=sys.stderr)


def size_bytes(stream: BinaryIO) -> int | None:
    """The size of the file behind `stream`; None when it has none."""
    try:
        return os.fstat(stream.fileno()).st_size or None
    except (OSError, ValueError):
        return None
