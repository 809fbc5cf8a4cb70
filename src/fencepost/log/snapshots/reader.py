"""Reads a snapshot, batch by batch, and believes nothing that it cannot check.

Layout (KIP-630): record batches like a log's, offsets from 0 on without a gap. The first is a
control batch that begins with a SnapshotHeader record; with kraft.version 1 the KRaftVersion and
the Voters at the snapshot's end stand behind it (KIP-853). Batches of metadata records follow. The
last is a control batch with a SnapshotFooter record: a file without it is not whole.

Snapshots come from other nodes, and from disks. What a file may cost is bounded: one batch is in
memory at a time, and none is larger than `BATCH_BYTES_MAX`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from msgspec import Struct

from fencepost.batch.control import read_control
from fencepost.batch.errors import BatchError
from fencepost.batch.header import HEADER_BYTES, MAGIC, BatchHeader, check_crc, read_header
from fencepost.log.errors import CorruptFileError
from fencepost.wire.message import Message
from fencepost.wire.records.control import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)

BATCH_BYTES_MAX: Final = 64 << 20
OPENING_BYTES_MAX: Final = 8 << 20
"""Of the first batch of one that is still being fetched: the largest voter sets fit."""
WHOLE_BYTES_MIN: Final = 2 * HEADER_BYTES
"""No snapshot is smaller: it has a header and a footer, a batch each."""
CHUNK_BYTES: Final = 1 << 20


class SnapshotError(CorruptFileError):
    """A file is not a whole and sound snapshot."""


class TruncatedSnapshotError(SnapshotError):
    """The end of the snapshot is missing; what there is may be sound."""


class DamagedSnapshotError(SnapshotError):
    """Something in the snapshot cannot be what was written."""


class Readable(Protocol):
    """As much of `fencepost.log.disk.File` as reading takes."""

    def read_at(self, size: int, position: int) -> bytes | bytearray:
        """Up to `size` bytes from `position`; fewer only at the end of the file. OSError."""
        ...

    def size(self) -> int:
        """Size in bytes. OSError."""
        ...


class SnapshotHeader(Struct, frozen=True):
    """What a snapshot says besides its records.

    `last_contained_log_timestamp_ms` is the time of the last log batch it stands for.
    `kraft_version` is 0 and `voters` None where the voters are configured.
    """

    last_contained_log_timestamp_ms: int
    kraft_version: int = 0
    voters: VotersRecord | None = None


class SnapshotReader:
    """The batches of one snapshot: iterate once for those with records.

    Making one reads the header. Raises TruncatedSnapshotError, DamagedSnapshotError and OSError,
    at any step; the last step is the one that knows whether the file is whole. `size_bytes` is what
    the file is to have once it is whole, if it is not.
    """

    def __init__(self, file: Readable, path: str, size_bytes: int | None = None) -> None:
        self._file = file
        self._path = path
        self._size = file.size() if size_bytes is None else size_bytes
        self._position = 0
        self._next_offset = 0
        self._chunk = memoryview(b"")
        self._chunk_at = 0
        header, batch = self._next_batch()
        said = self._control(header, batch) if header.is_control else []
        if not said or not isinstance(said[0], SnapshotHeaderRecord):
            raise DamagedSnapshotError(path, "does not begin with a snapshot header", 0)
        self.header = _header_of(said)

    def __iter__(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Header and bytes of every batch of records; its CRC has been looked at."""
        while True:
            header, batch = self._next_batch()
            if not header.is_control:
                yield header, batch
                continue
            said = self._control(header, batch)
            if any(isinstance(one, SnapshotFooterRecord) for one in said):
                break
        if self._position != self._size:
            raise self._damaged("there are bytes behind the footer")

    def _next_batch(self) -> tuple[BatchHeader, memoryview]:
        left = self._size - self._position
        if left < HEADER_BYTES:
            raise self._truncated("its footer is missing" if not left else "a batch is cut off")
        try:
            header = read_header(self._bytes(HEADER_BYTES))
        except BatchError as error:
            raise self._damaged(str(error)) from None
        if header.magic != MAGIC or header.size_bytes > BATCH_BYTES_MAX:
            raise self._damaged(f"a batch of format {header.magic} has {header.size_bytes} bytes")
        if header.size_bytes > left:
            raise self._truncated(f"a batch needs {header.size_bytes} bytes, {left} are left")
        batch = self._bytes(header.size_bytes)
        if len(batch) < header.size_bytes:
            raise self._truncated("the file has become shorter")
        if not check_crc(batch, 0, header):
            raise self._damaged("a batch does not have the content its checksum was made of")
        if header.base_offset != self._next_offset or header.records_count == 0:
            raise self._damaged(f"offset {header.base_offset} follows {self._next_offset - 1}")
        self._next_offset = header.next_offset
        self._position += header.size_bytes
        return header, batch

    def _bytes(self, size: int) -> memoryview:
        """The next bytes of the file, without moving on."""
        at = self._position - self._chunk_at
        if at + size > len(self._chunk):
            chunk = self._file.read_at(max(size, CHUNK_BYTES), self._position)
            self._chunk, self._chunk_at, at = memoryview(chunk), self._position, 0
        return self._chunk[at : at + size]

    def _control(self, header: BatchHeader, batch: memoryview) -> list[Message]:
        try:
            records = read_control(batch, check=False)
        except BatchError as error:
            raise self._damaged(str(error), header.size_bytes) from None
        return [record.value for record in records if record.value is not None]

    def _damaged(self, reason: str, back_bytes: int = 0) -> DamagedSnapshotError:
        return DamagedSnapshotError(self._path, reason, self._position - back_bytes)

    def _truncated(self, reason: str) -> TruncatedSnapshotError:
        return TruncatedSnapshotError(self._path, reason, self._position)


def check_whole(file: Readable, path: str) -> SnapshotHeader:
    """Read a snapshot to its footer. SnapshotError, OSError."""
    reader = SnapshotReader(file, path)
    for _ in reader:
        continue
    return reader.header


def begins_well(file: Readable, path: str, size_bytes: int) -> bool:
    """Whether a file that is still being fetched begins like a snapshot of `size_bytes`.

    False: there is too little of it to tell. What cannot become one raises DamagedSnapshotError,
    before all of it has been fetched for nothing: its first batch must be a control batch of the
    current format with a snapshot header, at offset 0, not larger than the file is to be, nor than
    `OPENING_BYTES_MAX`. OSError.
    """
    have_bytes = file.size()
    if not max(have_bytes, WHOLE_BYTES_MIN) <= size_bytes:
        reason = f"{have_bytes} bytes are not the beginning of a snapshot of {size_bytes}"
        raise DamagedSnapshotError(path, reason, 0)
    if have_bytes < HEADER_BYTES:
        return False
    try:
        header = read_header(memoryview(file.read_at(HEADER_BYTES, 0)))
    except BatchError as error:
        raise DamagedSnapshotError(path, str(error), 0) from None
    if header.magic != MAGIC or not header.is_control or header.base_offset != 0:
        raise DamagedSnapshotError(path, "does not begin with a snapshot header", 0)
    if header.size_bytes > min(size_bytes, OPENING_BYTES_MAX):
        reason = f"begins with {header.size_bytes} bytes of header, and has {size_bytes} in all"
        raise DamagedSnapshotError(path, reason, 0)
    if have_bytes < header.size_bytes:
        return False
    SnapshotReader(file, path, size_bytes)
    return True


def _header_of(said: list[Message]) -> SnapshotHeader:
    """The first control batch of a snapshot, as one value."""
    timestamp_ms, kraft_version, voters = 0, 0, None
    for record in said:
        if isinstance(record, SnapshotHeaderRecord):
            timestamp_ms = record.last_contained_log_timestamp
        elif isinstance(record, KRaftVersionRecord):
            kraft_version = record.kraft_version
        elif isinstance(record, VotersRecord):
            voters = record
    return SnapshotHeader(timestamp_ms, kraft_version, voters)
