"""One segment of a log: a file of record batches and the indexes into it.

Theory of operation
-------------------
A segment is named after the first offset it may hold. Batches stand in its file one behind the
other, as they came; the last segment of a log, the active one, grows. Where a batch begins is found
through the sparse offset index and a walk over batch headers, a few kilobytes at most. Where the
last reads ended is remembered (`_hints`), because that is where the next ones will begin.

A walk meets bytes that may have rotted. A header that cannot be one, or an index that points at
something that is not a batch of its offset, is CorruptFileError; the owner then makes the indexes
anew and looks again, and only if that does not help reports the log as damaged.

Batches that this process appended, or scanned during recovery, are known to be sound. The others
(of a log that was closed cleanly) have their CRC checked the first time they are read:
`_sound_from` and `_sound_to` bound the stretch that needs no more checking.

The file of a segment is opened when it is needed and closed by `SegmentCache`, which bounds open
files and loaded indexes for a whole log directory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final
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
    check_crc,
    read_header,
)
from fencepost.log.disk import Buffer, Disk, File
from fencepost.log.errors import CorruptFileError
from fencepost.log.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_file,
)
from fencepost.log.offset_index import OffsetIndex
from fencepost.log.time_index import NO_TIMESTAMP, TimeIndex, TimestampOffset
from fencepost.log.txn_index import TxnIndex

# base offset, batch length, magic, last offset delta: all a walk needs of a batch's header
_WALK = Struct(">qi4xb6xi")
_WALK_BYTES: Final = _WALK.size
_LENGTH_OVERHEAD_BYTES: Final = 12
_BYTES_MIN: Final = {
    magic: length + _LENGTH_OVERHEAD_BYTES for magic, length in enumerate(MESSAGE_LENGTHS_MIN)
}
_NO_MAGIC: Final = 1 << 32  # more than any size
_WALK_CHUNK_BYTES: Final = 8 * 1024
_SCAN_CHUNK_BYTES: Final = 1 << 20
_HINTS_KEPT: Final = 16
_RELATIVE_MAX: Final = (1 << 31) - 1

DIRTY_TIMES: Final = 4
"""How many times as many files as there may be otherwise may be open and not synced yet."""

UNKNOWN: Final = -2
"""A timestamp that has not been looked for yet; -1 is "there is none"."""

BatchAt = tuple[int, int, int, int]
"""Of a batch: position, size in bytes, base offset, last offset. For a message of before Kafka 0.11
(formats v0, v1), which is a batch here, both are the one offset it has."""


class SegmentCache:
    """Bounds what the segments of a log directory keep open and in memory.

    Segments are released in the order in which they were last read. A segment with appended data
    that is not yet durable keeps its file beyond `files_max`, for the flush that will come. When
    there are `DIRTY_TIMES` as many, because thousands of partitions were written to since their
    last flush, the oldest are synced on the spot and closed.
    """

    def __init__(self, files_max: int = 256, index_bytes_max: int = 16 << 20) -> None:
        self._files_max = files_max
        self._index_bytes_max = index_bytes_max
        self._index_bytes = 0
        self._used: OrderedDict[Segment, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._used)

    def touch(self, segment: Segment) -> None:
        """The segment has just opened or loaded something, or is being read. OSError."""
        size = segment.releasable_index_bytes
        self._index_bytes += size - self._used.get(segment, 0)
        self._used[segment] = size
        self._used.move_to_end(segment)
        self.trim(segment)

    def forget(self, segment: Segment) -> bool:
        """The segment is closed, or another cache's business; whether it held anything."""
        if segment not in self._used:
            return False
        self._index_bytes -= self._used.pop(segment)
        return True

    def trim(self, keep: Segment | None = None) -> None:
        """Release what is too much; to be called when segments have become durable."""
        if not self._is_over():
            return
        for segment in list(self._used):
            if segment is not keep and not segment.is_dirty and not segment.is_pinned:
                self.forget(segment)
                segment.release()
                if not self._is_over():
                    return
        if len(self._used) > DIRTY_TIMES * self._files_max:
            self._settle(keep)

    def _settle(self, keep: Segment | None) -> None:
        """Make the oldest durable, as many as there may be clean ones. OSError."""
        for segment in list(self._used)[: self._files_max]:
            if segment is not keep and not segment.is_pinned:
                segment.settle()
                self.forget(segment)
                segment.release()

    def _is_over(self) -> bool:
        return len(self._used) > self._files_max or self._index_bytes > self._index_bytes_max


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
        now_ms: int,
    ) -> None:
        self._disk = disk
        self._cache = cache
        self.directory = directory
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.next_offset = base_offset if next_offset is None else next_offset
        """Behind the last record; for a closed segment of a log opened as clean, the next base."""
        self.created_ms = now_ms
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
    def file(self) -> File:
        """The open segment file. OSError."""
        file = self._file
        if file is None:
            file = self._file = self._disk.open(self.path())
            self._cache.touch(self)
        return file

    def create(self, reserve_bytes: int = 0) -> None:
        """Make the (empty) segment file, with room for so many bytes set aside. OSError."""
        self._file = self._disk.open(self.path(), create=True)
        if self._file.size():
            self._file.truncate(0)
        if reserve_bytes:
            self._file.reserve(reserve_bytes)
        self._cache.touch(self)

    def give_back_room(self) -> None:
        """The segment is complete: what was set aside and is not needed is free again. OSError."""
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
        """The offset index, loaded or, if it is missing or damaged, made anew. OSError."""
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
            index = OffsetIndex.decode(index_path, self._disk.read(index_path), self.size_bytes)
            time_index = TimeIndex.decode(time_path, self._disk.read(time_path))
        except (CorruptFileError, FileNotFoundError):
            self.rebuild_indexes()
            return
        self._index, self._time_index = index, time_index
        if self.max_timestamp is None and not self.is_active and time_index:
            self.max_timestamp = time_index.last()
        self._cache.touch(self)

    def rebuild_indexes(self, interval_bytes: int = 4096) -> None:
        """Make both indexes from the segment file. CorruptFileError if it is damaged; OSError."""
        index, time_index, newest = OffsetIndex(), TimeIndex(), NO_TIMESTAMP
        since, expected = 0, self.base_offset
        for position, header in self.headers(0, self.size_bytes):
            if header.base_offset < expected or not self.has_room_for(header.last_offset):
                raise CorruptFileError(self.path(), "offsets are out of order", position)
            expected = header.next_offset
            relative = header.last_offset - self.base_offset
            if header.max_timestamp > newest.timestamp_ms:
                newest = TimestampOffset(header.max_timestamp, relative)
            if since > interval_bytes:
                index.append(relative, position)
                time_index.maybe_append(*newest)
                since = 0
            since += header.size_bytes
        self.install_indexes(index, time_index, newest, since)
        if not self.is_active:
            self.time_index.maybe_append(*self.largest_timestamp())
            for file in self.write_indexes():
                file.close()
        self._cache.touch(self)

    def install_indexes(
        self, index: OffsetIndex, time_index: TimeIndex, newest: TimestampOffset, since: int
    ) -> None:
        """Take over indexes that a scan has made."""
        self._index, self._time_index = index, time_index
        self._index_is_fresh = True
        self.max_timestamp = newest
        self.bytes_since_index = since
        self._hints.clear()

    @property
    def txn_index(self) -> TxnIndex:
        """The transaction index: loaded, or empty without a file. CorruptFileError, OSError.

        It cannot be made anew from this segment alone; `fencepost.log.replay` does that.
        """
        if self._txn_index is None:
            path = self.path(TXN_INDEX_SUFFIX)
            try:
                data = self._disk.read(path)
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
        self.time_index.maybe_append(*self.largest_timestamp())
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
        return last_offset - self.base_offset <= _RELATIVE_MAX

    def note_append(
        self, size_bytes: int, last_offset: int, max_timestamp_ms: int, interval_bytes: int
    ) -> None:
        """A batch has been written at the end of the file: index it."""
        newest = self.max_timestamp
        if newest is None:
            newest = self.largest_timestamp()
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

    def rolling_timestamp_ms(self) -> int:
        """Largest timestamp of the first batch, by which the segment's age is told; -1: none."""
        if self.first_timestamp_ms == UNKNOWN:
            for _, header in self.headers(0, self.size_bytes):
                self.first_timestamp_ms = header.max_timestamp
                break
            else:
                self.first_timestamp_ms = -1
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
        return self._mending(self._find, offset)

    def boundary_at_most(self, start: int, limit: int) -> int:
        """The last place from `start` to `limit` where a batch begins or the file ends.

        CorruptFileError, OSError.
        """
        return self._mending(self._find_boundary, start, limit)

    def _mending(self, find: Callable[..., int], *arguments: int) -> int:
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
                return position
        return self.size_bytes

    def _find_boundary(self, start: int, limit: int) -> int:
        entry = self.index.floor_position(limit)
        walk = self._walk_from_entry(entry) if entry[1] > start else self.walk(start, limit)
        reached = start
        for at, size, base_offset, _ in walk:
            if at + size > limit:
                self.hint(base_offset, at)
                return at
            reached = at + size
        return reached

    def _walk_from_entry(self, entry: tuple[int, int]) -> Iterator[BatchAt]:
        """Batches from the one that an index entry names, if that is one of its offset."""
        entry_offset, position = entry
        for batch in self.walk(position, self.size_bytes):
            if batch[0] == position and entry_offset not in (-1, batch[3] - self.base_offset):
                path = self.path(INDEX_SUFFIX)
                raise CorruptFileError(path, f"offset {entry_offset} does not lie at {position}")
            yield batch

    def batch_size_at(self, position: int) -> int:
        """Size of the batch that begins at `position`, 0 if none does; likewise."""
        batch = next(self.walk(position, self.size_bytes), None)
        return 0 if batch is None else batch[1]

    def base_offset_at(self, position: int) -> int | None:
        """Base offset of the batch that begins at `position`, if one does; likewise."""
        batch = next(self.walk(position, self.size_bytes), None)
        return None if batch is None else batch[2]

    def hint(self, offset: int, position: int) -> None:
        """Remember that `offset` begins at `position`."""
        hints = self._hints
        hints[offset] = position
        if len(hints) > _HINTS_KEPT:
            del hints[next(iter(hints))]

    def walk(self, position: int, end: int) -> Iterator[BatchAt]:
        """The batches from `position` to `end`, by their headers. CorruptFileError, OSError.

        A batch that reaches beyond `end` is not given; one that reaches beyond the file is damage.
        """
        read_at, path = self.file.read_at, self.path()
        chunk, chunk_at = b"", position
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
                if previous < 0 and not self._is_message(position, size):
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
        self._check_end(position, size, end)

    def _check_end(self, position: int, size: int, end: int) -> None:
        """A walk to `end` stops at `position`, before something of `size`: may it?

        What is left of the file is no batch if that is not whole: were it passed over, readers
        would go on with the next segment, and miss what is here in silence.
        """
        if position < end and size > self.size_bytes - position:
            raise CorruptFileError(self.path(), "a batch reaches beyond the end", position)

    def _is_message(self, position: int, size: int) -> bool:
        """Whether a message of format v0 or v1 lies at `position`: its CRC says. OSError.

        A walk begins where an index says, and among bytes that are mostly zero anything looks like
        a message; batches have enough in their headers to tell.
        """
        if not MESSAGE_BYTES_MIN <= size <= self.size_bytes - position:
            return False
        crc, at, end = 0, position + MAGIC_AT, position + size
        while at < end:
            piece = self.file.read_at(min(_SCAN_CHUNK_BYTES, end - at), at)
            if not piece:
                return False
            crc = crc32(piece, crc)
            at += len(piece)
        return crc.to_bytes(4) == self.file.read_at(4, position + MESSAGE_CRC_AT)

    # ---- reading

    def read(self, start: int, end: int) -> bytes:
        """The bytes between two batch boundaries, sound. CorruptFileError, OSError."""
        data = self.file.read_at(end - start, start)
        if len(data) < end - start:
            raise CorruptFileError(self.path(), f"ends before {end}", start + len(data))
        if not (self._sound_from <= start and end <= self._sound_to):
            self._check(data, start, end)
        return data

    def _check(self, data: bytes, start: int, end: int) -> None:
        position, expected = 0, self.base_offset
        while position < len(data):
            header = self._header(data, position, start)
            if not check_crc(data, position, header):
                raise CorruptFileError(self.path(), "a batch fails its CRC", start + position)
            # The CRC does not cover offsets; their order does what it can.
            if header.base_offset < expected:
                raise CorruptFileError(self.path(), "offsets are out of order", start + position)
            expected = header.next_offset
            position += header.size_bytes
        following = self.base_offset_at(end)
        if expected > (self.next_offset if following is None else following):
            raise CorruptFileError(self.path(), "offsets are out of order", end)
        if start <= self._sound_to and end >= self._sound_from:
            self._sound_from = min(self._sound_from, start)
            self._sound_to = max(self._sound_to, end)
        else:
            self._sound_from, self._sound_to = start, end

    def mark_sound(self) -> None:
        """All batches have been checked."""
        self._sound_from, self._sound_to = 0, self.size_bytes

    def _header(self, data: Buffer, at: int, start: int) -> BatchHeader:
        try:
            return read_header(data, at)
        except BatchError as error:
            raise CorruptFileError(self.path(), str(error), start + at) from None

    def batches(self, start: int, end: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The whole batches between two positions, sound. CorruptFileError, OSError."""
        while start < end:
            stop = self.boundary_at_most(start, min(start + _SCAN_CHUNK_BYTES, end))
            if stop == start:  # a batch larger than a chunk, or the end
                stop = start + self.batch_size_at(start)
                if stop == start or stop > end:
                    return
            data = memoryview(self.read(start, stop))
            position = 0
            while position < len(data):
                header = self._header(data, position, start)
                yield header, data[position : position + header.size_bytes]
                position += header.size_bytes
            start = stop

    def headers(self, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of the whole batches between two positions; CRCs are not looked at.

        CorruptFileError, OSError.
        """
        position, chunk, chunk_at = start, b"", start
        while end - position >= MESSAGE_BYTES_MIN:
            at = position - chunk_at
            if at + HEADER_BYTES > len(chunk):
                chunk_at, at = position, 0
                chunk = self.file.read_at(min(4 * _WALK_CHUNK_BYTES, end - position), position)
                if end - position < HEADER_BYTES and chunk[MAGIC_AT : MAGIC_AT + 1] == b"\x02":
                    self._check_end(position, HEADER_BYTES, end)
                    return
            header = self._header(chunk, at, chunk_at)
            if header.size_bytes > end - position:
                self._check_end(position, header.size_bytes, end)
                return
            yield position, header
            position += header.size_bytes
