"""Walking over the batches of a segment's file by their headers.

A walk meets bytes that may be corrupt. A header that cannot be one, or a batch that reaches beyond
the end of the file, is CorruptFileError: a search must not go on with the next segment as if this
one had ended there. CRCs are not looked at, but for messages of formats v0 and v1, whose headers
say too little.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, Protocol
from zlib import crc32

from fencepost.batch.errors import BatchError
from fencepost.batch.header import (
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    MESSAGE_BYTES_MIN,
    MESSAGE_CRC_AT,
    MESSAGE_LENGTHS_MIN,
    BatchHeader,
    read_header,
)
from fencepost.log.disk import Buffer, File
from fencepost.log.errors import CorruptFileError

# base offset, batch length, magic, last offset delta: all a walk needs of a batch's header
_WALK = Struct(">qi4xb6xi")
_WALK_BYTES: Final = _WALK.size
_LENGTH_OVERHEAD_BYTES: Final = 12
_BYTES_MIN: Final = {
    magic: length + _LENGTH_OVERHEAD_BYTES for magic, length in enumerate(MESSAGE_LENGTHS_MIN)
}
_NO_MAGIC: Final = 1 << 32  # more than any size
_WALK_CHUNK_BYTES: Final = 8 * 1024
HEADERS_CHUNK_BYTES: Final = 32 * 1024
CACHED_CHUNK_BYTES: Final = 4 * 1024
"""Of a file that is in the page cache, what lies between two headers had better not be copied."""
_CRC_CHUNK_BYTES: Final = 1 << 20

BatchAt = tuple[int, int, int, int]
"""Of a batch: position, size in bytes, base offset, last offset. For a message of before Kafka 0.11
(formats v0, v1), which is a batch here, both are the one offset it has."""


class BatchFile(Protocol):
    """A file of batches, of which the first `size_bytes` count; a `Segment`.

    The open file is asked for again and again, since it may be closed while a walk stands still.
    """

    size_bytes: int

    @property
    def file(self) -> File:
        """The open file. OSError."""

    def path(self) -> str:
        """Its path, for errors."""


def walk(batches: BatchFile, position: int, end: int) -> Iterator[BatchAt]:
    """The batches from `position` to `end`, by the least of their headers.

    A batch that reaches beyond `end` is not given; one that reaches beyond the file is damage.
    CorruptFileError, OSError.
    """
    read_at, path = batches.file.read_at, batches.path()
    chunk: bytes | bytearray = b""
    chunk_at = position
    previous = -1
    while end - position >= MESSAGE_BYTES_MIN:
        at = position - chunk_at
        if at + _WALK_BYTES > len(chunk):
            chunk_at, at = position, 0
            chunk = read_at(min(_WALK_CHUNK_BYTES, end - position), position)
            if len(chunk) < MESSAGE_BYTES_MIN:
                raise CorruptFileError(path, f"ends before {end}", position)
            chunk = chunk.ljust(_WALK_BYTES)  # the least message ends before a delta would
        base_offset, length, magic, delta = _WALK.unpack_from(chunk, at)
        size = length + _LENGTH_OVERHEAD_BYTES
        least = HEADER_BYTES
        if magic != MAGIC:
            least, delta = _BYTES_MIN.get(magic, _NO_MAGIC), 0
            if previous < 0 and not _is_message(batches, position, size):
                least = _NO_MAGIC
        if size < least or delta < 0 or base_offset <= previous:
            raise CorruptFileError(path, "no batch begins here", position)
        if size > end - position:
            break
        previous = base_offset + delta
        yield position, size, base_offset, previous
        position += size
    else:
        size = MESSAGE_BYTES_MIN
    _check_end(batches, position, size, end)


def walk_headers(
    batches: BatchFile, start: int, end: int, chunk_bytes: int = HEADERS_CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and whole header of the whole batches between two positions.

    So much is read at once. CorruptFileError, OSError.
    """
    path = batches.path()
    chunk: bytes | bytearray = b""
    position = chunk_at = start
    while end - position >= MESSAGE_BYTES_MIN:
        at = position - chunk_at
        if at + HEADER_BYTES > len(chunk):
            chunk_at, at = position, 0
            chunk = batches.file.read_at(min(chunk_bytes, end - position), position)
            if end - position < HEADER_BYTES and chunk[MAGIC_AT : MAGIC_AT + 1] == b"\x02":
                _check_end(batches, position, HEADER_BYTES, end)
                return
        header = header_at(path, chunk, at, position)
        if header.size_bytes > end - position:
            _check_end(batches, position, header.size_bytes, end)
            return
        yield position, header
        position += header.size_bytes


def header_at(path: str, data: Buffer, at: int, position: int) -> BatchHeader:
    """The header at `at` of what was read of a file, and lies at `position` there.

    CorruptFileError.
    """
    try:
        return read_header(data, at)
    except BatchError as error:
        raise CorruptFileError(path, str(error), position) from None


def _check_end(batches: BatchFile, position: int, size: int, end: int) -> None:
    """A walk to `end` stops at `position`, before something of `size`: may it?

    What is left of the file is no batch if that is not whole: were it passed over, readers would
    go on with the next segment, and miss what is here in silence.
    """
    if position < end and size > batches.size_bytes - position:
        raise CorruptFileError(batches.path(), "a batch reaches beyond the end", position)


def _is_message(batches: BatchFile, position: int, size: int) -> bool:
    """Whether a message of format v0 or v1 lies at `position`: its CRC says. OSError.

    A walk begins where an index says, and among bytes that are mostly zero anything looks like a
    message; batches have enough in their headers to tell.
    """
    if not MESSAGE_BYTES_MIN <= size <= batches.size_bytes - position:
        return False
    crc, at, end = 0, position + MAGIC_AT, position + size
    while at < end:
        piece = batches.file.read_at(min(_CRC_CHUNK_BYTES, end - at), at)
        if not piece:
            return False
        crc = crc32(piece, crc)
        at += len(piece)
    return crc.to_bytes(4) == batches.file.read_at(4, position + MESSAGE_CRC_AT)
