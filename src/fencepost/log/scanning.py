"""What recovery does to a segment file: reads it through, and writes again what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fencepost.batch.errors import BatchError
from fencepost.batch.header import (
    HEADER_BYTES,
    MESSAGE_BYTES_MIN,
    BatchHeader,
    check_crc,
    read_header,
)
from fencepost.log.disk import Disk, File

_CHUNK_BYTES: Final = 1 << 20


def scan(
    disk: Disk, path: str, size_bytes: int, base_offset: int
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of the batches from the start that are whole, sound and in order.

    OSError.
    """
    file = disk.open(path)
    try:
        chunk: bytes | bytearray = b""
        position = chunk_at = 0
        expected = base_offset
        leap: tuple[int, BatchHeader] | None = None
        while size_bytes - position >= MESSAGE_BYTES_MIN:
            at = position - chunk_at
            if at + HEADER_BYTES > len(chunk):
                chunk_at, at = position, 0
                chunk = file.read_at(min(_CHUNK_BYTES, size_bytes - position), position)
            try:
                header = read_header(chunk, at)
            except BatchError:
                break
            size = header.size_bytes
            if size > size_bytes - position:
                break
            if at + size > len(chunk):
                chunk_at, at = position, 0
                wanted = max(size, min(_CHUNK_BYTES, size_bytes - position))
                chunk = file.read_at(wanted, position)
            if not check_crc(chunk, at, header):
                break
            if leap is not None:
                if expected <= header.base_offset < leap[1].next_offset:
                    return  # the batch in front leapt, and this one knows nothing of it: damage
                yield leap
                expected, leap = leap[1].next_offset, None
            if header.base_offset < expected:
                break
            if header.base_offset > expected:
                # Compaction leaves gaps; a flipped bit looks like one, and so does a compressed
                # message of v0 or v1, whose offset is that of its last record.
                leap = position, header
            else:
                yield position, header
                expected = header.next_offset
            position += size
        if leap is not None:
            yield leap
    finally:
        file.close()


def write_again(file: File, start: int, end: int) -> None:
    """Write the same bytes over a part of a file, so that its next sync has to write them. OSError.

    A power cut meanwhile does no harm: what is written is what is there.
    """
    for at in range(start, end, _CHUNK_BYTES):
        file.write_at(file.read_at(min(_CHUNK_BYTES, end - at), at), at)


def clear_behind(file: File, end: int) -> None:
    """Have zeros written over what may stand on the disk behind the end of a file, with its sync.

    A crash can lose the size of a file that grew within its last block, and not the bytes: they
    stay on the disk, unseen. The next crash may lose the bytes of what was appended since and not
    the size (ext4 with `data=ordered` commits it on its own), and a batch of an earlier run, whole
    and with the right offset, would take the place of one of this life. File systems write zeros
    behind the end when they write the block it lies in, so that block is made to be written.
    """
    if end:
        file.write_at(file.read_at(1, end - 1), end - 1)
