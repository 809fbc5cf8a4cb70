"""One segment of a log: a file of record batches and the indexes into it.

Theory of operation
-------------------
A segment is named after the first offset it may hold. Batches stand in its file one behind the
other, as they came; the last segment of a log, the active one, grows. Where a batch begins is found
through the sparse offset index and a walk over batch headers (`segment_walk`), a few kilobytes at
most. Where the last reads ended is remembered (`_hints`), because that is where the next ones will
begin.

An index may be corrupt, too, and point at something that is not a batch of its offset. When a walk
finds damage the indexes are made again and the search is repeated; only if that does not help
the log is damaged.

Batches that this process appended, or scanned during recovery, were sound then. The others (of a
log that was closed cleanly) have their CRC checked the first time they are read: `_sound_from` and
`_sound_to` bound the stretch that readers who check by themselves (consumers, followers) get
without another look. A disk can corrupt data at any time, so `batches`, of which state is made
here, checks every CRC whatever was checked before.

The file of a segment is opened, and its indexes are loaded, when they are needed; `SegmentCache`
lets go of them.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Final

from fencepost.batch.header import BatchHeader, check_crc
from fencepost.batch.record_batch import BatchBlock
from fencepost.log.disk import Disk, File, index_bytes_max
from fencepost.log.errors import CorruptFileError, crc_mismatch
from fencepost.log.index_builder import IndexBuilder
from fencepost.log.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_file,
)
from fencepost.log.offset_index import RELATIVE_MAX, OffsetIndex
from fencepost.log.segment_cache import SegmentCache
from fencepost.log.segment_walk import (
    HEADERS_CHUNK_BYTES,
    BatchAt,
    header_at,
    walk,
    walk_headers,
)
from fencepost.log.time_index import NO_TIMESTAMP, TimeIndex, TimestampOffset
from fencepost.log.txn_index import TxnIndex

log = logging.getLogger(__name__)

_BATCHES_CHUNK_BYTES: Final = 1 << 20
_HINTS_KEPT: Final = 16

UNKNOWN: Final = -2
"""A timestamp that has not been looked for yet; -1 is "there is none"."""


class Segment:
    """A segment of the log in `directory`; see the module docstring."""

    __slots__ = (
        "_cache",
        "_disk",
        "_file",
        "_hints",
        "_index",
        "_index_is_fresh",
        "_sound_from",
        "_sound_to",
        "_time_index",
        "_txn_index",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "directory",
        "first_timestamp_ms",
        "is_active",
        "is_pinned",
        "is_retired",
        "max_timestamp",
        "next_offset",
        "size_bytes",
        "sync_failure",
        "synced_bytes",
    )

    def __init__(
        self,
        disk: Disk,
        cache: SegmentCache,
        directory: str,
        base_offset: int,
        *,
        size_bytes: int = 0,
        next_offset: int | None = None,
        wall_ms: int,
    ) -> None:
        self._disk = disk
        self._cache = cache
        self.directory = directory
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.next_offset = base_offset if next_offset is None else next_offset
        """Behind the last record; for a closed segment of a log opened as clean, the next base."""
        self.created_ms = wall_ms
        self.synced_bytes = size_bytes
        self.sync_failure: OSError | None = None
        """Why its file could not be synced; no later sync is to be believed."""
        self.bytes_since_index = 0
        self.first_timestamp_ms = UNKNOWN if size_bytes else -1
        self.max_timestamp: TimestampOffset | None = None if size_bytes else NO_TIMESTAMP
        self.is_active = False
        self.is_pinned = False
        """Its files have other names for a while: what is open and loaded must stay so."""
        self.is_retired = False
        self._file: File | None = None
        self._index: OffsetIndex | None = None if size_bytes else OffsetIndex()
        self._time_index: TimeIndex | None = None if size_bytes else TimeIndex()
        self._txn_index: TxnIndex | None = None if size_bytes else TxnIndex()
        self._index_is_fresh = size_bytes == 0
        self._hints: dict[int, int] = {}
        self._sound_from = 0
        self._sound_to = 0

    # ---- files

    def path(self, suffix: str = LOG_SUFFIX) -> str:
        """Path of one of the segment's files."""
        return f"{self.directory}/{offset_file(self.base_offset, suffix)}"

    @property
    def is_ready(self) -> bool:
        """Whether records can be appended without opening a file first."""
        return self._file is not None and self.max_timestamp is not None

    @property
    def file(self) -> File:
        """The open segment file. OSError."""
        file = self._file
        if file is None:
            file = self._file = self._disk.open(self.path())
            self._cache.touch(self)
        return file

    def create(self, reserve_bytes: int = 0) -> None:
        """Make the (empty) segment file, with room for so many bytes reserved. OSError; nothing is
        open then."""
        file = self._disk.open(self.path(), create=True)
        try:
            if file.size():
                file.truncate(0)
            if reserve_bytes:
                file.reserve(reserve_bytes)
        except OSError:
            file.close()
            raise
        self._file = file
        self._cache.touch(self)

    def give_back_room(self) -> None:
        """The segment is complete: what was reserved and is not needed is free again. OSError."""
        self.file.truncate(self.size_bytes)

    def share(self, cache: SegmentCache) -> None:
        """Have another cache bound what the segment keeps open."""
        is_held = self._cache.forget(self)
        self._cache = cache
        if is_held:
            cache.touch(self)

    def pin(self, file: File) -> None:
        """Take over the open segment file, all of it sound, whose name is not the final one yet.

        The indexes are installed already. Nothing else may be asked of a pinned segment than what
        can be told without names: reading and looking up.
        """
        self._file = file
        self.is_pinned = True
        self.mark_sound()

    def unpin(self) -> None:
        """The files have their names."""
        self.is_pinned = False
        self._cache.touch(self)

    def close_file(self) -> None:
        """Close the segment file, of a segment that was not put to use."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def is_dirty(self) -> bool:
        """Whether data was appended that has not been synced."""
        return self.size_bytes > self.synced_bytes

    def settle(self) -> None:
        """Make what was appended durable now, so that the file can be closed. OSError."""
        if not self.is_dirty:
            return
        try:
            self.file.sync()
        except OSError as error:
            self.sync_failure = error
            raise
        self.synced_bytes = self.size_bytes

    @property
    def releasable_index_bytes(self) -> int:
        """Bytes of loaded indexes that could be loaded again."""
        if self.is_active:
            return 0
        loaded = (self._index, self._time_index, self._txn_index)
        return sum(index.size_bytes for index in loaded if index is not None)

    def release(self) -> None:
        """Close the file; forget indexes that can be read again."""
        self.close_file()
        if not self.is_active:
            self._index = None
            self._time_index = None
            self._index_is_fresh = False
            if self._txn_index:  # that there are no entries is worth remembering
                self._txn_index = None

    def close(self) -> None:
        """Let go of everything; the segment is not used any more."""
        self.is_active = False
        self._cache.forget(self)
        self.release()

    # ---- indexes

    @property
    def index(self) -> OffsetIndex:
        """The offset index, loaded or, if it is missing or damaged, made again. OSError."""
        if self._index is None:
            self._load_indexes()
        assert self._index is not None
        return self._index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, likewise."""
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    def _load_indexes(self) -> None:
        index_path, time_path = self.path(INDEX_SUFFIX), self.path(TIME_INDEX_SUFFIX)
        try:
            data = self._disk.read(index_path, index_bytes_max(self.size_bytes))
            index = OffsetIndex.decode(index_path, data, self.size_bytes)
            data = self._disk.read(time_path, index_bytes_max(self.size_bytes))
            time_index = TimeIndex.decode(time_path, data)
        except (CorruptFileError, FileNotFoundError):
            self.rebuild_indexes()
            return
        self._index, self._time_index = index, time_index
        if self.max_timestamp is None and not self.is_active and time_index:
            self.max_timestamp = time_index.last()
        self._cache.touch(self)

    def rebuild_indexes(self, interval_bytes: int = 4096) -> None:
        """Make both indexes from the segment file. CorruptFileError if it is damaged; OSError."""
        built, expected = IndexBuilder(self.base_offset, interval_bytes), self.base_offset
        for position, header in self.headers(0, self.size_bytes):
            if header.base_offset < expected or not self.has_room_for(header.last_offset):
                raise CorruptFileError(self.path(), "offsets are out of order", position)
            expected = header.next_offset
            built.add(position, header)
        self.install_indexes(built)
        if not self.is_active:
            self.time_index.maybe_append(*self.largest_timestamp())
            for file in self.write_indexes():
                file.close()
        self._cache.touch(self)

    def install_indexes(self, built: IndexBuilder) -> None:
        """Take over indexes that were made of all its batches."""
        self._index, self._time_index = built.index, built.time_index
        self._index_is_fresh = True
        self.max_timestamp = built.newest
        self.bytes_since_index = built.bytes_since_index
        self._hints.clear()

    @property
    def txn_index(self) -> TxnIndex:
        """The transaction index: loaded, or empty without a file. CorruptFileError, OSError.

        It cannot be made again from this segment alone; `fencepost.log.replay` does that.
        """
        if self._txn_index is None:
            path = self.path(TXN_INDEX_SUFFIX)
            try:
                data = self._disk.read(path, index_bytes_max(self.size_bytes))
            except FileNotFoundError:
                data = b""
            self._txn_index = TxnIndex.decode(path, data, self.base_offset)
            self._cache.touch(self)
        return self._txn_index

    def install_txn_index(self, txn_index: TxnIndex) -> None:
        """Take over a transaction index that a replay has made."""
        self._txn_index = txn_index

    def write_indexes(self) -> list[File]:
        """Write offset and time index; the files are open, and not synced yet. OSError."""
        return self._write(
            (INDEX_SUFFIX, self.index.encode()), (TIME_INDEX_SUFFIX, self.time_index.encode())
        )

    def write_txn_index(self) -> list[File]:
        """Write the transaction index, likewise, or remove its file if there are no entries."""
        if self.txn_index:
            return self._write((TXN_INDEX_SUFFIX, self.txn_index.encode()))
        path = self.path(TXN_INDEX_SUFFIX)
        if self._disk.exists(path):
            self._disk.unlink(path)
        return []

    def _write(self, *contents: tuple[str, bytes]) -> list[File]:
        written: list[File] = []
        try:
            for suffix, data in contents:
                file = self._disk.open(self.path(suffix), create=True)
                written.append(file)
                file.truncate(0)
                file.write_at(data, 0)
        except OSError:
            for file in written:
                file.close()
            raise
        return written

    def seal(self) -> list[File]:
        """Write the indexes of a complete segment; the files are open, not synced. OSError."""
        self.time_index.maybe_append(*self.settle_timestamp())
        written = self.write_txn_index()
        try:
            return [*self.write_indexes(), *written]
        except OSError:
            for file in written:
                file.close()
            raise

    def become_active(self) -> None:
        """The segment is to grow again: have its indexes in memory for good. OSError."""
        if self._index is None or self._time_index is None:
            self._load_indexes()
        self.is_active = True
        self._cache.touch(self)

    # ---- appending

    def has_room_for(self, last_offset: int) -> bool:
        """Whether an index entry could name the offset."""
        return last_offset - self.base_offset <= RELATIVE_MAX

    def settle_timestamp(self) -> TimestampOffset:
        """The largest timestamp, or as much as can be told of it, which is then taken for it.

        What is appended, or closed, must not fail because of damage that stands in front of it.
        OSError.
        """
        try:
            return self.largest_timestamp()
        except CorruptFileError as error:
            log.warning("cannot determine the largest timestamp of %s: %s", self.path(), error)
            known = NO_TIMESTAMP if self._time_index is None else self._time_index.last()
            self.max_timestamp = known
            return known

    def note_append(
        self, size_bytes: int, last_offset: int, max_timestamp_ms: int, interval_bytes: int
    ) -> None:
        """A batch has been written at the end of the file: index it.

        `settle_timestamp` was called before, so that nothing need be read now.
        """
        newest = self.max_timestamp
        assert newest is not None, "the timestamp is settled before anything is written"
        relative = last_offset - self.base_offset
        if max_timestamp_ms > newest.timestamp_ms:
            newest = self.max_timestamp = TimestampOffset(max_timestamp_ms, relative)
        if self.size_bytes == 0:
            self.first_timestamp_ms = max_timestamp_ms
        if self.bytes_since_index > interval_bytes:
            self.index.append(relative, self.size_bytes)
            self.time_index.maybe_append(*newest)
            self.bytes_since_index = 0
        if self._sound_to == self.size_bytes:
            self._sound_to += size_bytes
        self.bytes_since_index += size_bytes
        self.size_bytes += size_bytes
        self.next_offset = last_offset + 1

    def note_block(self, block: BatchBlock, first_offset: int, interval_bytes: int) -> None:
        """The same for a block, behind other batches of the segment."""
        newest = self.max_timestamp
        assert newest is not None and self.size_bytes, "the first batch is noted by itself"
        next_relative = first_offset - self.base_offset
        entries, newest_ms, newest_relative, self.bytes_since_index = block.index_entries(
            next_relative, *newest, self.bytes_since_index, interval_bytes
        )
        for relative, position, timestamp_ms, at_relative in entries:
            self.index.append(relative, self.size_bytes + position)
            self.time_index.maybe_append(timestamp_ms, at_relative)
        if newest_ms > newest.timestamp_ms:
            self.max_timestamp = TimestampOffset(newest_ms, newest_relative)
        if self._sound_to == self.size_bytes:
            self._sound_to += block.size_bytes
        self.size_bytes += block.size_bytes
        self.next_offset = first_offset + block.offsets

    def rolling_timestamp_ms(self) -> int:
        """Largest timestamp of the first batch, by which the segment's age is told.

        -1 if there is none, or none that can be read. OSError.
        """
        if self.first_timestamp_ms == UNKNOWN:
            self.first_timestamp_ms = -1
            with contextlib.suppress(CorruptFileError):
                for _, header in self.headers(0, self.size_bytes):
                    self.first_timestamp_ms = header.max_timestamp
                    break
        return self.first_timestamp_ms

    def largest_timestamp(self) -> TimestampOffset:
        """The largest timestamp and the batch that has it, by its relative last offset."""
        if self.max_timestamp is None:
            newest = self.time_index.last()
            if self.max_timestamp is None:
                start = self.position_of(self.base_offset + newest.relative_offset)
                for _, header in self.headers(start, self.size_bytes):
                    if header.max_timestamp > newest.timestamp_ms:
                        relative = header.last_offset - self.base_offset
                        newest = TimestampOffset(header.max_timestamp, relative)
                self.max_timestamp = newest
        return self.max_timestamp

    def truncate(self, position: int, next_offset: int) -> None:
        """Cut the file at `position`, durably, and forget what lay behind it. OSError."""
        index, time_index = self.index, self.time_index
        self.file.truncate(position)
        self.file.sync()
        index.truncate(position)
        time_index.truncate(next_offset - self.base_offset)
        self.size_bytes = self.synced_bytes = position
        self.next_offset = next_offset
        self.max_timestamp = None if position else NO_TIMESTAMP
        self.first_timestamp_ms = UNKNOWN if position else -1
        self.bytes_since_index = position - index.floor_position(position)[1]
        self._sound_to = min(self._sound_to, position)
        self._sound_from = min(self._sound_from, self._sound_to)
        self._hints.clear()

    # ---- finding

    def position_of(self, offset: int) -> int:
        """Where the first batch begins whose last offset is not below `offset`; else the end.

        CorruptFileError, OSError.
        """
        if offset >= self.next_offset and self.is_active:
            return self.size_bytes
        hint = self._hints.get(offset)
        if hint is not None:
            return hint
        return self._with_repaired_indexes(self._find, offset)

    def boundary_at_most(self, start: int, limit: int) -> int:
        """The last place from `start` to `limit` where a batch begins or the file ends.

        CorruptFileError, OSError.
        """
        return self._with_repaired_indexes(self._find_boundary, start, limit)

    def _with_repaired_indexes(self, find: Callable[..., int], *arguments: int) -> int:
        """Look, and if that fails look again with new indexes: perhaps they are what is damaged."""
        try:
            return find(*arguments)
        except CorruptFileError:
            if self._index_is_fresh:
                raise
        self.rebuild_indexes()
        return find(*arguments)

    def _find(self, offset: int) -> int:
        entry = self.index.floor(offset - self.base_offset)
        for position, _, _, last_offset in self._walk_from_entry(entry):
            if last_offset >= offset:
                self.hint(offset, position)
                return position
        return self.size_bytes

    def _find_boundary(self, start: int, limit: int) -> int:
        entry = self.index.floor_position(limit)
        batches = self._walk_from_entry(entry) if entry[1] > start else walk(self, start, limit)
        reached = start
        for at, size, base_offset, _ in batches:
            if at + size > limit:
                self.hint(base_offset, at)
                return at
            reached = at + size
        return reached

    def _walk_from_entry(self, entry: tuple[int, int]) -> Iterator[BatchAt]:
        """Batches from the one that an index entry names, if that is one of its offset."""
        entry_offset, position = entry
        for batch in walk(self, position, self.size_bytes):
            if batch[0] == position and entry_offset not in (-1, batch[3] - self.base_offset):
                path = self.path(INDEX_SUFFIX)
                raise CorruptFileError(path, f"offset {entry_offset} does not lie at {position}")
            yield batch

    def batch_size_at(self, position: int) -> int:
        """Size of the batch that begins at `position`, 0 if none does; likewise."""
        batch = next(walk(self, position, self.size_bytes), None)
        return 0 if batch is None else batch[1]

    def base_offset_at(self, position: int) -> int | None:
        """Base offset of the batch that begins at `position`, if one does; likewise."""
        batch = self.batch_at(position)
        return None if batch is None else batch[0]

    def batch_at(self, position: int) -> tuple[int, int] | None:
        """Base offset and size of the batch that begins at `position`, if one does; likewise."""
        batch = next(walk(self, position, self.size_bytes), None)
        return None if batch is None else (batch[2], batch[1])

    def hint(self, offset: int, position: int) -> None:
        """Remember that `offset` begins at `position`."""
        hints = self._hints
        hints[offset] = position
        if len(hints) > _HINTS_KEPT:
            del hints[next(iter(hints))]

    # ---- reading

    def read(self, start: int, end: int) -> bytes | bytearray:
        """The bytes between two batch boundaries, found sound now or before.

        CorruptFileError, OSError.
        """
        data = self.file.read_at(end - start, start)
        if len(data) < end - start:
            raise CorruptFileError(self.path(), f"ends before {end}", start + len(data))
        if not self._was_sound(start, end):
            self._check(data, start, end)
        return data

    def read_known(self, offset: int, max_bytes: int, bound: int) -> bytes | bytearray | None:
        """Everything from `offset` on, if that is known to be sound, and where it is, ends at the
        bound or before, has no more bytes, and is cached; else None."""
        start, end, file = self._hints.get(offset), self.size_bytes, self._file
        if start is None or file is None or bound < self.next_offset:
            return None
        if not 0 < end - start <= max_bytes or not self._was_sound(start, end):
            return None
        if self.is_active:
            self.hint(self.next_offset, end)
        return file.read_cached(end - start, start)

    def _was_sound(self, start: int, end: int) -> bool:
        return self._sound_from <= start and end <= self._sound_to

    def _check(self, data: bytes | bytearray, start: int, end: int) -> None:
        position, expected, path = 0, self.base_offset, self.path()
        while position < len(data):
            header = header_at(path, data, position, start + position)
            if not check_crc(data, position, header):
                raise CorruptFileError(path, crc_mismatch(header), start + position)
            # The CRC does not cover offsets; their order does what it can.
            if header.base_offset < expected:
                raise CorruptFileError(path, "offsets are out of order", start + position)
            expected = header.next_offset
            position += header.size_bytes
        following = self.base_offset_at(end)
        if expected > (self.next_offset if following is None else following):
            raise CorruptFileError(path, "offsets are out of order", end)
        if start <= self._sound_to and end >= self._sound_from:
            self._sound_from = min(self._sound_from, start)
            self._sound_to = max(self._sound_to, end)
        else:
            self._sound_from, self._sound_to = start, end

    def mark_sound(self) -> None:
        """All batches have been checked."""
        self._sound_from, self._sound_to = 0, self.size_bytes

    def batches(self, start: int, end: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The whole batches between two positions, all checked now. CorruptFileError, OSError."""
        path = self.path()
        while start < end:
            stop = self.boundary_at_most(start, min(start + _BATCHES_CHUNK_BYTES, end))
            if stop == start:  # a batch larger than a chunk, or the end
                stop = start + self.batch_size_at(start)
                if stop == start or stop > end:
                    return
            is_checked = not self._was_sound(start, stop)
            data = memoryview(self.read(start, stop))
            position = 0
            while position < len(data):
                header = header_at(path, data, position, start + position)
                if not (is_checked or check_crc(data, position, header)):
                    self._sound_from = self._sound_to = 0  # nor may the rest be sound any more
                    raise CorruptFileError(path, crc_mismatch(header), start + position)
                yield header, data[position : position + header.size_bytes]
                position += header.size_bytes
            start = stop

    def headers(
        self, start: int, end: int, chunk_bytes: int = HEADERS_CHUNK_BYTES
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of the whole batches between two positions; CRCs are not looked at.

        So much is read at once. CorruptFileError, OSError.
        """
        return walk_headers(self, start, end, chunk_bytes)
