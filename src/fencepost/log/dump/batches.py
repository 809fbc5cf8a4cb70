"""The batches of a segment file, one in memory at a time, and the way back to them behind damage.

A batch says how long it is, so where it is corrupt the file does not say where the next one begins.
Behind a header that cannot be, or a length that leads nowhere, the bytes are searched for the next
batch: its offsets must go on from the last sound one, and its CRC must hold, which is certain
enough. Messages of the formats before v2 are read, but not searched for: too little about them is
fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from fencepost.batch.crc import crc32c
from fencepost.batch.errors import BatchError
from fencepost.batch.header import HEADER_BYTES, MAGIC, MAGIC_AT, BatchHeader, read_header

CHUNK_BYTES: Final = 1 << 20
_SKIP_CHUNK_BYTES: Final = 4096
_DATA_BYTES_MAX: Final = 64 << 20
"""Batches beyond this are not kept in memory unless their records are wanted."""
_ATTRIBUTES_AT: Final = 21
_CODEC_MAX: Final = 4
_LEAP_MAX: Final = 1 << 31
"""No segment spans more offsets, so no batch of it begins farther on."""
_MAGIC_BYTE: Final = bytes([MAGIC])


class Readable(Protocol):
    """As much of `fencepost.log.disk.File` as reading takes."""

    def read_at(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file. OSError."""
        ...

    def size(self) -> int:
        """Size in bytes. OSError."""
        ...


class FoundBatch(NamedTuple):
    """A whole batch. `crc` is what its content has; `data` is None where it was not wanted."""

    position: int
    header: BatchHeader
    crc: int | None
    data: bytes | None

    @property
    def is_sound(self) -> bool:
        """Whether the CRC matches; True where it was not computed."""
        return self.crc is None or self.crc == self.header.crc


class UnreadableBytes(NamedTuple):
    """Bytes that are no batch, up to the next one or the end of the file."""

    position: int
    size_bytes: int
    reason: str
    is_tail: bool
    """Whether it is only that the end of the last batch is missing, as after a crash."""


def scan_batches(
    file: Readable,
    *,
    base_offset: int | None = None,
    from_offset: int = 0,
    with_data: Callable[[BatchHeader], bool] | None = None,
    with_crc: bool = True,
    start: int = 0,
    stop: int | None = None,
) -> Iterator[FoundBatch | UnreadableBytes]:
    """All batches of a segment file and what lies between them. OSError.

    `base_offset` is the file's by its name. Batches that end below `from_offset` are passed over
    unread. `with_data` chooses the batches whose bytes are given. Without `with_crc` batches are
    believed, and their content is not read. A batch begins at `start`; of what begins at or behind
    `stop` nothing is given.
    """
    position, expected = start, base_offset
    end = file.size()
    stop = end if stop is None else min(stop, end)
    chunk, chunk_at = b"", 0
    while position < stop:
        at = position - chunk_at
        if at + HEADER_BYTES > len(chunk):
            is_skipping = expected is not None and expected < from_offset
            wanted = CHUNK_BYTES if with_crc and not is_skipping else _SKIP_CHUNK_BYTES
            chunk, chunk_at, at = file.read_at(min(wanted, end - position), position), position, 0
        header, reason = _header_at(chunk, at)
        if header is None or header.size_bytes > end - position:
            unreadable = _unreadable(file, position, end, expected, header, reason)
            yield unreadable
            position += unreadable.size_bytes
            continue
        size = header.size_bytes
        if header.last_offset < from_offset:
            position, expected = position + size, _after(header, expected)
            continue
        if with_crc or (with_data is not None and with_data(header)):
            found = _load(file, chunk, at, position, header, with_data)
        else:
            found = FoundBatch(position, header, None, None)
        if not found.is_sound and not _may_begin(file, position + size, end, expected):
            following = find_batch(file, position + 1, end, expected)
            if following != position + size:
                yield _invalid_batch(position, following, end, found)
                position = end if following is None else following
                continue
        yield found
        if found.is_sound:
            expected = _after(header, expected)
        position += size


def _after(header: BatchHeader, expected: int | None) -> int:
    """The least offset behind this batch, unless its own (which no CRC covers) cannot be right."""
    if expected is None or expected <= header.base_offset <= expected + _LEAP_MAX:
        return header.next_offset
    return expected


def _header_at(chunk: bytes, at: int) -> tuple[BatchHeader | None, str]:
    try:
        return read_header(chunk, at), ""
    except BatchError as error:
        return None, str(error)


def _load(
    file: Readable,
    chunk: bytes,
    at: int,
    position: int,
    header: BatchHeader,
    with_data: Callable[[BatchHeader], bool] | None,
) -> FoundBatch:
    size = header.size_bytes
    wanted = with_data is not None and with_data(header)
    if at + size <= len(chunk):
        data = chunk[at : at + size]
    elif wanted or size <= _DATA_BYTES_MAX:
        data = file.read_at(size, position)
    else:
        return FoundBatch(position, header, _crc_of(file, position, header), None)
    crc = _crc_of(_Bytes(data), 0, header)
    return FoundBatch(position, header, crc, data if wanted else None)


class _Bytes:
    """Bytes in memory as a file."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def read_at(self, size: int, position: int) -> memoryview:
        return self._data[position : position + size]


def _crc_of(file: Readable | _Bytes, position: int, header: BatchHeader) -> int:
    """The CRC of the batch's content; zlib's for messages of v0 and v1."""
    at = position + (_ATTRIBUTES_AT if header.magic == MAGIC else MAGIC_AT)
    end, crc = position + header.size_bytes, 0
    while at < end:
        part = file.read_at(min(CHUNK_BYTES, end - at), at)
        if not part:
            return ~header.crc & 0xFFFFFFFF  # the file has become shorter: it is not this CRC
        crc = crc32c(part, crc) if header.magic == MAGIC else crc32(part, crc)
        at += len(part)
    return crc


def _unreadable(
    file: Readable,
    position: int,
    end: int,
    expected: int | None,
    header: BatchHeader | None,
    reason: str,
) -> UnreadableBytes:
    left = end - position
    following = find_batch(file, position + 1, end, expected)
    if following is None and _is_zero(file, position, end):
        return UnreadableBytes(position, left, f"{left} zero bytes at the end", True)
    if header is not None:
        reason = f"the batch needs {header.size_bytes} bytes, {left} are left"
    elif left < HEADER_BYTES:
        reason = f"{left} bytes are left, fewer than a batch's header"
    is_tail = following is None and (header is not None or left < HEADER_BYTES)
    return UnreadableBytes(
        position, (end if following is None else following) - position, reason, is_tail
    )


def _invalid_batch(
    position: int, following: int | None, end: int, found: FoundBatch
) -> UnreadableBytes:
    header = found.header
    reason = (
        f"a batch of offsets {header.base_offset}-{header.last_offset} whose CRC is"
        f" {found.crc:#010x}, not {header.crc:#010x}, and whose length leads to no other"
    )
    return UnreadableBytes(
        position, (end if following is None else following) - position, reason, False
    )


def _may_begin(file: Readable, position: int, end: int, expected: int | None) -> bool:
    """Whether the file ends here, or a header stands here that could be the next batch's."""
    if position == end:
        return True
    header, _ = _header_at(file.read_at(HEADER_BYTES, position), 0)
    return header is not None and _goes_on(header, end - position, expected)


def _goes_on(header: BatchHeader, left_bytes: int, expected: int | None) -> bool:
    return (
        header.size_bytes <= left_bytes
        and header.compression <= _CODEC_MAX
        and header.records_count <= header.last_offset_delta + 1
        and (expected is None or expected <= header.base_offset <= expected + _LEAP_MAX)
    )


def find_batch(file: Readable, start: int, end: int, expected: int | None) -> int | None:
    """Where, from `start` on, the next sound batch of format v2 begins; None if none does.

    `expected` is the least offset it may have. OSError.
    """
    at = start
    while end - at >= HEADER_BYTES:
        chunk = file.read_at(min(CHUNK_BYTES, end - at), at)
        hit = chunk.find(_MAGIC_BYTE, MAGIC_AT)
        while hit >= 0 and hit - MAGIC_AT + HEADER_BYTES <= len(chunk):
            begin = hit - MAGIC_AT
            if _looks_like_header(chunk, begin):
                header, _ = _header_at(chunk, begin)
                if header is not None and _continues(file, at + begin, end, header, expected):
                    return at + begin
            hit = chunk.find(_MAGIC_BYTE, hit + 1)
        if len(chunk) < HEADER_BYTES or at + len(chunk) >= end:
            return None
        at += len(chunk) - HEADER_BYTES + 1
    return None


def _continues(
    file: Readable, position: int, end: int, header: BatchHeader, expected: int | None
) -> bool:
    return (
        _goes_on(header, end - position, expected) and _crc_of(file, position, header) == header.crc
    )


def _looks_like_header(chunk: bytes, begin: int) -> bool:
    """Cheap and necessary: no negative offset or length, undefined attribute bits unset."""
    return chunk[begin] < 0x80 and chunk[begin + 8] < 0x80 and chunk[begin + _ATTRIBUTES_AT] == 0


def _is_zero(file: Readable, position: int, end: int) -> bool:
    while position < end:
        chunk = file.read_at(min(CHUNK_BYTES, end - position), position)
        if not chunk or chunk.count(0) != len(chunk):
            return False
        position += len(chunk)
    return True
