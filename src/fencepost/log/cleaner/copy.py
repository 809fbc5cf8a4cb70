"""The files of a cleaning: closed segments read from one end to the other, and a copy written.

A copy consists of `.cleaned` files beside the segments it is made of. `finish` gives the `Segment`
that it will be: with its file open and its indexes in memory, so that it can be read from while its
files get their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fencepost.batch.header import HEADER_BYTES, BatchHeader, check_crc, sound_headers
from fencepost.log.disk import Buffer, Disk, File
from fencepost.log.errors import CorruptFileError, crc_mismatch
from fencepost.log.index_builder import IndexBuilder
from fencepost.log.names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_file,
)
from fencepost.log.offset_index import POSITION_MAX
from fencepost.log.segment import Segment
from fencepost.log.segment_cache import SegmentCache
from fencepost.log.segment_walk import header_at
from fencepost.log.txn_index import TxnIndex


def read_segment(
    disk: Disk, path: str, size_bytes: int, chunk_bytes: int, pause: Callable[[int], None]
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of every batch of a closed segment, sound.

    `pause` is called with the bytes that were read, and takes its time. CorruptFileError, OSError.
    """
    file = disk.open(path)
    try:
        position, chunk, at = 0, memoryview(b""), 0
        while position < size_bytes:
            for header in sound_headers(chunk, at):
                end = at + header.size_bytes
                yield position, header, chunk[at:end]
                position, at = position + end - at, end
            if position == size_bytes:
                break
            wanted = HEADER_BYTES
            if len(chunk) - at >= HEADER_BYTES or position + len(chunk) - at >= size_bytes:
                header = header_at(path, chunk, at, position)
                wanted = header.size_bytes
            if len(chunk) - at < wanted:
                if wanted > size_bytes - position:
                    raise CorruptFileError(path, "ends within a batch", position)
                wanted = min(max(wanted, chunk_bytes), size_bytes - position)
                chunk, at = memoryview(file.read_at(wanted, position)), 0
                if len(chunk) < wanted:
                    raise CorruptFileError(path, f"ends before {size_bytes}", position)
                pause(wanted)
                continue
            batch = chunk[at : at + wanted]
            if not check_crc(batch, 0, header):
                raise CorruptFileError(path, crc_mismatch(header), position)
            yield position, header, batch
            at += wanted
            position += wanted
    finally:
        file.close()


class Copy:
    """The copy of some neighbouring segments, of which the first begins at `base_offset`."""

    def __init__(
        self, disk: Disk, directory: str, base_offset: int, interval_bytes: int, buffer_bytes: int
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._base_offset = base_offset
        self._buffer_bytes = buffer_bytes
        self._buffer = bytearray()
        self._written_bytes = 0
        self._built = IndexBuilder(base_offset, interval_bytes)
        self._files: list[File] = []
        self._log = self._create(LOG_SUFFIX)

    @property
    def size_bytes(self) -> int:
        """Bytes appended so far."""
        return self._written_bytes + len(self._buffer)

    def append(self, header: BatchHeader, batch: Buffer) -> None:
        """Add a batch behind the others. CorruptFileError, OSError."""
        position = self.size_bytes
        if position + len(batch) > POSITION_MAX:
            raise CorruptFileError(self._path(LOG_SUFFIX), "a segment cannot be so large", position)
        self._built.add(position, header)
        self._buffer += batch
        if len(self._buffer) >= self._buffer_bytes:
            self._write_out()

    def finish(
        self, end_offset: int, txn_index: TxnIndex, modified_ms: int, cache: SegmentCache
    ) -> Segment:
        """Write indexes, make everything durable; the segment, which ends where the next begins.

        The file's age is that of the newest original. OSError.
        """
        self._write_out()
        built = self._built
        built.time_index.maybe_append(*built.newest)
        indexes = [
            (INDEX_SUFFIX, built.index.encode()),
            (TIME_INDEX_SUFFIX, built.time_index.encode()),
        ]
        if txn_index:
            indexes.append((TXN_INDEX_SUFFIX, txn_index.encode()))
        for suffix, data in indexes:
            self._create(suffix).write_at(data, 0)
        for file in self._files:
            file.sync()
        self._disk.set_modified_ms(self._path(LOG_SUFFIX), modified_ms)
        segment = Segment(
            self._disk,
            cache,
            self._directory,
            self._base_offset,
            size_bytes=self.size_bytes,
            next_offset=end_offset,
            wall_ms=modified_ms,
        )
        segment.install_indexes(built)
        segment.install_txn_index(txn_index)
        segment.pin(self._log)
        for file in self._files[1:]:
            file.close()
        return segment

    def discard(self) -> None:
        """The copy is not wanted: close and remove its files. OSError."""
        self.close()
        remove_copy(self._disk, self._directory, self._base_offset)

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files:
            file.close()

    def _write_out(self) -> None:
        if self._buffer:
            self._log.write_at(self._buffer, self._written_bytes)
            self._written_bytes += len(self._buffer)
            self._buffer = bytearray()

    def _path(self, suffix: str) -> str:
        return f"{self._directory}/{offset_file(self._base_offset, suffix)}{CLEANED_SUFFIX}"

    def _create(self, suffix: str) -> File:
        file = self._disk.open(self._path(suffix), create=True)
        self._files.append(file)
        file.truncate(0)
        return file


def remove_copy(disk: Disk, directory: str, base_offset: int) -> None:
    """Remove the files of a copy that is not put in place. OSError."""
    for suffix in SEGMENT_SUFFIXES:
        disk.unlink(f"{directory}/{offset_file(base_offset, suffix)}{CLEANED_SUFFIX}")
