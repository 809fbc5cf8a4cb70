"""What recovery does to a segment file: reads it through, and writes again what is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from fencepost.batch.errors import BatchError
from fencepost.batch.header import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MESSAGE_BYTES_MIN,
    BatchHeader,
    check_crc,
    read_header,
    sound_headers,
)
from fencepost.log.disk import Buffer, Disk, File
from fencepost.log.segment_walk import BatchFile

_CHUNK_BYTES: Final = 1 << 20

OnRead = Callable[[Buffer, int], None]


def scan(
    disk: Disk,
    path: str,
    size_bytes: int,
    base_offset: int,
    on_read: OnRead | None = None,
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of the batches from the start that are whole, sound and in order.

    `on_read` is called with what was read, and from which position on, before its batches come.
    OSError.
    """
    file = disk.open(path)
    try:
        expected = base_offset
        leap: tuple[int, BatchHeader] | None = None
        for position, header in _sound_batches(file, size_bytes, on_read):
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
        if leap is not None:
            yield leap
    finally:
        file.close()


def _sound_batches(
    file: File, size_bytes: int, on_read: OnRead | None
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of the batches from the start that are whole and sound. OSError."""
    chunk: Buffer = b""
    position = chunk_at = 0
    while size_bytes - position >= MESSAGE_BYTES_MIN:
        at = position - chunk_at
        if headers := sound_headers(chunk, at):
            for header in headers:
                yield position, header
                position += header.batch_length + LENGTH_OVERHEAD_BYTES
            continue
        wanted = _bytes_wanted(chunk, at, size_bytes - position)
        if wanted > size_bytes - position:
            return
        if wanted > len(chunk) - at:
            chunk_at = position
            chunk = file.read_at(max(wanted, min(_CHUNK_BYTES, size_bytes - position)), position)
            if on_read is not None:
                on_read(chunk, position)
            if len(chunk) < wanted:
                return
            continue
        header = read_header(chunk, at)
        if not check_crc(chunk, at, header):
            return
        yield position, header
        position += wanted


def _bytes_wanted(chunk: Buffer, at: int, left_bytes: int) -> int:
    """What has to be there of the batch at `at`, with `left_bytes` to the end of the file: all of
    it once its header is; too much if that is no header."""
    least = min(HEADER_BYTES, left_bytes)
    if len(chunk) - at < least:
        return least
    try:
        return read_header(chunk, at).size_bytes
    except BatchError:
        return left_bytes + 1


class KeptAgain:
    """What recovery keeps of a segment file, written again from the buffers it was checked in.

    A power cut meanwhile does no harm: what is written is what is there.
    """

    def __init__(self, segment: BatchFile) -> None:
        self._segment = segment
        self._chunk: Buffer = b""
        self._chunk_at = 0
        self._begin = self._end = 0

    def on_read(self, chunk: Buffer, position: int) -> None:
        """For `scan`. OSError."""
        self.write()
        self._chunk, self._chunk_at = chunk, position

    def keep(self, end: int, *, is_durable: bool) -> None:
        """All that was read is kept up to `end`; it need not be written if it is durable."""
        self._end = end
        if is_durable:
            self._begin = end

    def write(self) -> None:
        """Write what is kept and was not written yet. OSError."""
        if self._begin < min(self._chunk_at, self._end):  # of a buffer that is gone
            write_again(self._segment.file, self._begin, min(self._chunk_at, self._end))
            self._begin = min(self._chunk_at, self._end)
        if self._begin < self._end:
            kept = memoryview(self._chunk)[
                self._begin - self._chunk_at : self._end - self._chunk_at
            ]
            self._segment.file.write_at(kept, self._begin)
            self._begin = self._end


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
