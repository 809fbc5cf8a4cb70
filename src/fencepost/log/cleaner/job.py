"""One cleaning of one log: the part that runs on a cleaner's thread.

Theory of operation
-------------------
`run` looks at closed segments through file handles of its own and writes copies. For each finished
copy it calls `put_in_place`, and goes on when that has come back; how the log's owner is reached is
the caller's business. Between two batches, and whenever it meets something odd, it looks whether
the log's owner has called `abort`: then segments may be gone or cut, and nothing it finds means
anything any more.

Only as far as the offset map reaches can records be superseded: the cleaning ends there
(`cleaned_offset`), and the next one begins there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from fencepost.batch.errors import BatchError
from fencepost.batch.header import MAGIC, BatchHeader, read_header
from fencepost.batch.records import read_batch, read_payload
from fencepost.log.cleaner.copy import Copy, read_segment, remove_copy
from fencepost.log.cleaner.errors import CleaningAbortedError
from fencepost.log.cleaner.filter import BatchFilter, ProducerTail, control_type_of
from fencepost.log.cleaner.offset_map import OffsetMap
from fencepost.log.cleaner.plan import Dirt, Source, group_sources
from fencepost.log.cleaner.transactions import TransactionTracker
from fencepost.log.config import LogConfig
from fencepost.log.disk import Disk
from fencepost.log.errors import LogError
from fencepost.log.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, offset_file
from fencepost.log.segment import Segment
from fencepost.log.segment_cache import SegmentCache
from fencepost.log.txn_index import TxnIndex
from fencepost.wire.records.txn_index import AbortedTxn

log = logging.getLogger(__name__)

IO_BYTES_DEFAULT = 256 * 1024


class CleaningStats(Struct):
    """What a cleaning did."""

    segments_before: int = 0
    segments_after: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    records_without_key: int = 0
    keys: int = 0
    map_utilization: float = 0.0
    seconds: float = 0.0
    is_partial: bool = False
    """The offset map was full before the end of the dirty part."""

    def __str__(self) -> str:
        mib = 1 << 20
        rate = self.bytes_read / mib / self.seconds if self.seconds else 0.0
        return (
            f"{self.segments_before} segment(s) into {self.segments_after},"
            f" {self.bytes_read / mib:.2f} into {self.bytes_written / mib:.2f} MiB,"
            f" {self.records_read} into {self.records_written} records,"
            f" {self.keys} dirty keys, map {self.map_utilization:.0%} full"
            f"{' (partial)' if self.is_partial else ''}, {self.seconds:.2f} s, {rate:.1f} MiB/s"
        )


class Copied(Struct):
    """A finished copy and the segments it is to replace."""

    sources: Sequence[Source]
    segment: Segment
    is_taken: bool = False
    """The log reads from it: from now on it is the log's."""


class CleaningInput(Struct, frozen=True):
    """What the log's owner knew when the cleaning began."""

    disk: Disk
    cache: SegmentCache
    directory: str
    config: LogConfig
    sources: Sequence[Source]
    dirt: Dirt
    aborted: Sequence[AbortedTxn]
    """Aborted transactions with a marker in the sources or behind, in the order of the markers."""
    producers: Mapping[int, ProducerTail]
    wall_ms: int


class Cleaning:
    """See the module docstring; made by `PartitionLog.begin_cleaning`."""

    def __init__(self, given: CleaningInput) -> None:
        self._given = given
        self._is_aborted = False
        self._io_bytes = IO_BYTES_DEFAULT
        self._pause: Callable[[int], None] = _no_pause
        self.cleaned_offset = given.dirt.first_dirty
        """Below this everything is clean, once `run` has come back."""
        self.stats = CleaningStats(segments_before=len(given.sources))

    @property
    def is_aborted(self) -> bool:
        """Whether the log's owner has called it off."""
        return self._is_aborted

    @property
    def has_progressed(self) -> bool:
        """Whether more of the log is clean than before, once `run` has come back."""
        return self.cleaned_offset > self._given.dirt.first_dirty

    def abort(self) -> None:
        """Call it off; any thread. What was put in place stays."""
        self._is_aborted = True

    def run(
        self,
        offsets: OffsetMap,
        put_in_place: Callable[[Copied], None],
        *,
        io_bytes: int = IO_BYTES_DEFAULT,
        pause: Callable[[int], None] | None = None,
    ) -> None:
        """Clean. `pause(bytes)` is called with whatever was read or written, and takes its time.

        Raises CleaningAbortedError, CorruptFileError or BatchError (the log is damaged), OSError.
        """
        self._io_bytes = io_bytes
        self._pause = pause or _no_pause
        began = time.perf_counter()
        try:
            self._fill(offsets)
            self._copy_all(offsets, put_in_place)
        except (LogError, BatchError, OSError) as error:
            if self._is_aborted and not isinstance(error, CleaningAbortedError):
                raise CleaningAbortedError(str(error)) from error
            raise
        stats = self.stats
        stats.keys, stats.map_utilization = len(offsets), offsets.utilization
        stats.seconds = time.perf_counter() - began
        self.cleaned_offset = offsets.latest_offset + 1

    def _check(self) -> None:
        if self._is_aborted:
            raise CleaningAbortedError(f"the cleaning of {self._given.directory} was called off")

    def _path(self, base_offset: int, suffix: str) -> str:
        return f"{self._given.directory}/{offset_file(base_offset, suffix)}"

    def _read(self, source: Source) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        path = self._path(source.base_offset, LOG_SUFFIX)
        pause = self._pause
        for item in read_segment(self._given.disk, path, source.size_bytes, self._io_bytes, pause):
            self._check()
            yield item
            pause(0)

    # ---- first pass

    def _fill(self, offsets: OffsetMap) -> None:
        """Note the keys of the dirty part, as many as there is room for."""
        dirt = self._given.dirt
        offsets.clear()
        offsets.latest_offset = dirt.first_dirty - 1
        dirty = [
            source
            for source in self._given.sources
            if source.end_offset > dirt.first_dirty and source.base_offset < dirt.first_uncleanable
        ]
        transactions = self._tracker(dirty)
        for source in dirty:
            if not self._fill_from(source, offsets, transactions):
                self.stats.is_partial = True
                return
            offsets.latest_offset = source.end_offset - 1

    def _fill_from(
        self, source: Source, offsets: OffsetMap, transactions: TransactionTracker
    ) -> bool:
        first_dirty = self._given.dirt.first_dirty
        for _, header, batch in self._read(source):
            if header.is_control:
                transactions.on_marker(header, control_type_of(header, batch))
            elif (
                not transactions.on_data(header)
                and header.last_offset >= first_dirty
                and not _add(offsets, header, batch, first_dirty)
            ):
                return False
            if header.last_offset >= first_dirty:
                offsets.latest_offset = header.last_offset
        return True

    def _tracker(self, sources: Sequence[Source]) -> TransactionTracker:
        begin = sources[0].base_offset if sources else 0
        return TransactionTracker(one for one in self._given.aborted if one.last_offset >= begin)

    # ---- second pass

    def _copy_all(self, offsets: OffsetMap, put_in_place: Callable[[Copied], None]) -> None:
        given = self._given
        sources = [one for one in given.sources if one.base_offset <= offsets.latest_offset]
        batches = BatchFilter(
            offsets,
            transactions := self._tracker(sources),
            given.producers,
            wall_ms=given.wall_ms,
            delete_retention_ms=given.config.delete_retention_ms,
        )
        self.stats.segments_before = len(sources)
        for group in group_sources(sources, given.config, self._index_bytes):
            segment = self._copy(group, batches, transactions)
            copied = Copied(group, segment)
            try:
                self._check()
                put_in_place(copied)
            except (LogError, OSError) as error:
                if not copied.is_taken:
                    segment.close_file()
                    if isinstance(error, LogError):
                        remove_copy(given.disk, given.directory, segment.base_offset)
                raise
            self.stats.segments_after += 1
        counts = batches.counts
        self.stats.records_read = counts.records_read
        self.stats.records_written = counts.records_kept
        self.stats.records_without_key = counts.records_without_key

    def _index_bytes(self, source: Source) -> int:
        return max(
            self._size_of(source.base_offset, INDEX_SUFFIX),
            self._size_of(source.base_offset, TIME_INDEX_SUFFIX),
        )

    def _size_of(self, base_offset: int, suffix: str) -> int:
        try:
            return self._given.disk.size(self._path(base_offset, suffix))
        except FileNotFoundError:
            return 0

    def _copy(
        self, group: Sequence[Source], batches: BatchFilter, transactions: TransactionTracker
    ) -> Segment:
        given = self._given
        copy = Copy(
            given.disk,
            given.directory,
            group[0].base_offset,
            given.config.index_interval_bytes,
            self._io_bytes,
        )
        try:
            last = [source for source in group if source.size_bytes][-1:]
            for source in group:
                for position, header, batch in self._read(source):
                    end = position + header.size_bytes
                    must_stay = source in last and end == source.size_bytes
                    left = batches.filter(header, batch, must_stay)
                    if left is not None:
                        copy.append(header if left is batch else read_header(left), left)
                        self._pause(len(left))
                self.stats.bytes_read += source.size_bytes
            newest = self._path(group[-1].base_offset, LOG_SUFFIX)
            modified_ms = given.disk.modified_ms(newest)
            self.stats.bytes_written += copy.size_bytes
            return copy.finish(
                group[-1].end_offset, TxnIndex(transactions.take_needed()), modified_ms, given.cache
            )
        except (LogError, BatchError, MemoryError):  # a batch can decompress to more than there is
            copy.discard()
            raise
        except OSError:
            copy.close()
            raise


def _add(offsets: OffsetMap, header: BatchHeader, batch: memoryview, first_dirty: int) -> bool:
    """Note a batch's keys; whether there was room for all of them. BatchError."""
    # A cleaning gets on by a batch at least, however small the map is.
    is_bounded = offsets.latest_offset >= first_dirty
    if header.magic != MAGIC:
        return offsets.add(read_batch(batch, 0, header), first_dirty, is_bounded=is_bounded)
    payload = read_payload(batch, 0, header)
    return offsets.add_payload(payload, header, first_dirty, is_bounded=is_bounded)


def _no_pause(_: int) -> None:
    """The caller does not limit the rate."""


__all__ = [
    "Cleaning",
    "CleaningInput",
    "CleaningStats",
    "Copied",
]
