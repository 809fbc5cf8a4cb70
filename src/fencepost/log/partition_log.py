"""One partition's log: appended to at one end, read anywhere, cut at either end, and durable.

Theory of operation
-------------------
A log is a row of segments; the last one, the active one, grows. It decides where bytes go and when
a new segment is begun; it knows nothing of leaders, high watermarks or clients. One thread owns it.
Only `FlushJob.run` may be called on another.

What is durable is told by `recovery_point`: everything below it survives the machine. It moves only
in `finish_flush`, after a job has synced, in this order of importance but any order of time, every
segment file with new data, the files of segments closed since, the leader-epoch file if an epoch
has begun, and the directories that name them. A job never covers what was appended after
`begin_flush`, and what is cut off while it runs is taken out of what it covers.

The disk may refuse. An append that fails leaves the log as it was, in memory and in the file; if
even that cannot be made sure, and after any failed sync, the log has failed for good: every further
call raises LogFailedError, and the truth is found out by recovery when the log is opened anew. A
sync is never repeated in the hope of a better answer.

Deleting segments goes from the oldest up, truncating from the newest down, with the directory
synced in between, so that a crash half-way leaves a log without a hole. Deleted files are renamed
to `.deleted` at once and unlinked after `file.delete.delay.ms`, so that readers can finish.

Cutting the log below what is known to be durable must be known, too, before it happens, or recovery
would miss what was cut: `lower_recovery_point` is called first and must be durable when it returns.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from fencepost.batch.control import read_control
from fencepost.batch.errors import BatchError
from fencepost.batch.header import (
    BatchHeader,
    check_crc,
    iter_headers,
    stamp,
    stamp_log_append_time,
)
from fencepost.batch.records import read_batch
from fencepost.log.config import LogConfig
from fencepost.log.disk import Buffer, ClosedFileError, Disk, File
from fencepost.log.epochs import LeaderEpochCache
from fencepost.log.errors import (
    CorruptFileError,
    LogFailedError,
    OffsetOutOfRange,
    UnexpectedOffsetError,
)
from fencepost.log.names import (
    DELETED_SUFFIX,
    LEADER_EPOCH_FILE,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    deleted_dir,
    offset_file,
)
from fencepost.log.producers import ProducerStates
from fencepost.log.recovery import LoadedLog, RecoveryReport, load_log, load_producers
from fencepost.log.segment import Segment, SegmentCache
from fencepost.wire.records.control import EndTxnMarker
from fencepost.wire.types import Uuid

_RELATIVE_MAX: Final = (1 << 31) - 1


class AppendResult(NamedTuple):
    """Where a batch went; `log_append_time_ms` is -1 unless the leader's clock stamped it."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int


class ReadResult(NamedTuple):
    """Whole batches in `buffers`, one behind the other, beginning at or before what was asked.

    `first_offset` is the base offset of the first one; what was asked for if there is none.
    """

    buffers: list[Buffer]
    size_bytes: int
    first_offset: int


class TimestampedOffset(NamedTuple):
    """A record's offset and timestamp, and the epoch of its batch if it has one."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None


class FlushJob:
    """Work for the disk that makes a log durable up to `end_offset`; made by `begin_flush`."""

    __slots__ = ("_log", "directories", "end_offset", "epochs", "files", "marks", "names_changed")

    def __init__(self, log: PartitionLog, end_offset: int) -> None:
        self._log = log
        self.end_offset = end_offset
        self.files: list[tuple[Segment | None, File]] = []
        self.marks: list[tuple[Segment, int]] = []
        self.epochs: tuple[int, bytes] | None = None
        self.directories: list[str] = []
        self.names_changed = 0

    def run(self) -> None:
        """Do it; on any thread. OSError, after which the log has failed."""
        self._log.check_usable()
        try:
            for segment, file in self.files:
                try:
                    file.sync()
                except ClosedFileError:
                    # A segment that was deleted meanwhile need not be durable.
                    if segment is None or not segment.is_retired:
                        raise
            self._log.sync_names(self)
        except OSError as error:
            self._log.fail(f"a flush failed: {error}")
            raise


class PartitionLog:
    """See the module docstring; made by `open`."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        loaded: LoadedLog,
        cache: SegmentCache,
        lower_recovery_point: Callable[[int], None],
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.directory = directory
        self.topic_id: Uuid | None = loaded.topic_id
        self.epochs: LeaderEpochCache = loaded.epochs
        self.producers: ProducerStates = loaded.producers
        self.recovery: RecoveryReport = loaded.report
        """What opening the log found and did."""
        self._disk = disk
        self._cache = cache
        self._lower_recovery_point = lower_recovery_point
        self._segments: list[Segment] = loaded.segments
        self._bases: list[int] = [segment.base_offset for segment in loaded.segments]
        self._active = loaded.segments[-1]
        self._active.is_active = True
        self._start_offset = loaded.start_offset
        self._end_offset = loaded.end_offset
        self._recovery_point = loaded.recovery_point
        self._snapshots: set[int] = loaded.snapshots
        self._failure: str | None = None
        self._is_closed = False
        self._jobs: list[FlushJob] = []
        self._unsynced: list[tuple[Segment | None, File]] = []
        self._names_changed = 1 if loaded.is_new else 0
        self._names_synced = 0
        self._parent_synced = not loaded.is_new
        self._epochs_written = -1 if loaded.epochs_changed else self.epochs.version
        self._deleted: list[tuple[str, int | None]] = []
        self.config = config

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        recovery_point: int = 0,
        clean_shutdown: bool = False,
        start_offset: int = 0,
        now_ms: int,
        topic_id: Uuid | None = None,
        cache: SegmentCache | None = None,
        lower_recovery_point: Callable[[int], None] | None = None,
        accept_loss: bool = False,
    ) -> PartitionLog:
        """Open the log in `directory`, which is made if it is not there.

        `recovery_point` and `start_offset` are what was checkpointed. With `clean_shutdown` the
        files are trusted; without, everything from the recovery point on is checked, cut at the
        first batch that is not whole and sound, and synced.

        Raises DurableDataLostError if records below the recovery point are gone or damaged (unless
        `accept_loss`), InconsistentTopicIdError, CorruptFileError, OSError.
        """
        cache = cache or SegmentCache()
        loaded = load_log(
            disk,
            cache,
            directory,
            config,
            recovery_point=recovery_point,
            clean_shutdown=clean_shutdown,
            start_offset=start_offset,
            now_ms=now_ms,
            topic_id=topic_id,
            accept_loss=accept_loss,
        )
        lower = lower_recovery_point or _nobody_to_tell
        return cls(disk, directory, topic, partition, config, loaded, cache, lower)

    # ---- state

    @property
    def start_offset(self) -> int:
        """The first offset that may be read."""
        return self._start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._end_offset

    @property
    def recovery_point(self) -> int:
        """Everything below is durable."""
        return self._recovery_point

    @property
    def size_bytes(self) -> int:
        """Bytes of all segment files."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def segment_count(self) -> int:
        """Number of segments, the active one included."""
        return len(self._segments)

    @property
    def failure(self) -> str | None:
        """Why the log has failed; None while it works."""
        return self._failure

    @property
    def config(self) -> LogConfig:
        """The topic's configs; may be set, and holds from the next append on."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._roll_bytes = config.roll_bytes
        self._roll_ms = config.roll_ms - self._jitter_ms(config)
        self._index_interval_bytes = config.index_interval_bytes
        self._index_entries_max = config.max_index_entries
        self._time_index_entries_max = config.max_time_index_entries - 1
        self._log_append_time = config.is_log_append_time

    def _jitter_ms(self, config: LogConfig) -> int:
        # Spread by name, not by dice: the same partition rolls at the same time after a restart.
        if not config.segment_jitter_ms:
            return 0
        spread = sum(self.topic.encode()) * 31 + self.partition * 7919
        return spread % min(config.segment_jitter_ms, config.roll_ms)

    def fail(self, reason: str) -> None:
        """The disk has refused: from now on every call raises LogFailedError. Any thread."""
        if self._failure is None:
            self._failure = reason

    def check_usable(self) -> None:
        """Raise LogFailedError if the log has failed or is closed."""
        if self._failure is not None:
            raise LogFailedError(f"{self.directory} is offline: {self._failure}")
        if self._is_closed:
            raise LogFailedError(f"{self.directory} is closed")

    # ---- appending

    def append_as_leader(
        self, batch: bytearray | memoryview, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> AppendResult:
        """Append one whole batch, which is given its offsets, epoch and maybe timestamp in place.

        `header` is the batch's own, as read before. Whether the producer may send it has been
        checked (`producers.check`). Raises LogFailedError, OSError: the log is then as before.
        """
        if self._failure is not None or self._is_closed:
            self.check_usable()
        size = header.batch_length + 12
        assert len(batch) == size, f"a batch of {size} bytes in {len(batch)}"
        first_offset = self._end_offset
        last_offset = first_offset + header.last_offset_delta
        stamp(batch, 0, base_offset=first_offset, leader_epoch=leader_epoch)
        append_time_ms = -1
        if self._log_append_time:
            append_time_ms = now_ms
            stamp_log_append_time(batch, 0, now_ms)
            header = header._replace(max_timestamp=now_ms)
        segment = self._segment_for(size, first_offset, last_offset, header.max_timestamp, now_ms)
        self._write(segment, batch)
        segment.note_append(size, last_offset, header.max_timestamp, self._index_interval_bytes)
        self._end_offset = last_offset + 1
        self._note_batch(header, batch, first_offset, leader_epoch)
        return AppendResult(first_offset, last_offset, append_time_ms, self._start_offset)

    def append_as_follower(self, batches: Buffer, now_ms: int) -> AppendResult:
        """Append batches as the leader has stamped them; one cut off at the end is left out.

        Raises UnexpectedOffsetError if they do not continue the log, BatchError, CorruptFileError
        for a CRC that fails, LogFailedError, OSError. Batches before the offending one are in.
        """
        self.check_usable()
        view = memoryview(batches)
        first_offset = self._end_offset
        for position, header in iter_headers(view):
            if header.base_offset < self._end_offset:
                raise UnexpectedOffsetError(
                    f"{self.directory}: a batch at {header.base_offset}, expected one at"
                    f" {self._end_offset} or behind"
                )
            if not check_crc(view, position, header):
                where = f"{self.directory}, from the leader"
                raise CorruptFileError(where, f"the batch at {header.base_offset} fails its CRC")
            if first_offset == self._end_offset:
                first_offset = header.base_offset
            self._append_stamped(view[position : position + header.size_bytes], header, now_ms)
        return AppendResult(first_offset, self._end_offset - 1, -1, self._start_offset)

    def _append_stamped(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        last_offset = header.last_offset
        segment = self._segment_for(
            len(batch), header.base_offset, last_offset, header.max_timestamp, now_ms
        )
        self._write(segment, batch)
        segment.note_append(
            len(batch), last_offset, header.max_timestamp, self._index_interval_bytes
        )
        self._end_offset = last_offset + 1
        self._note_batch(header, batch, header.base_offset, header.partition_leader_epoch)

    def _note_batch(
        self, header: BatchHeader, batch: Buffer, first_offset: int, leader_epoch: int
    ) -> None:
        epochs = self.epochs
        if leader_epoch >= 0 and epochs.latest_epoch() != leader_epoch:
            epochs.assign(leader_epoch, first_offset)
        producers = self.producers
        if header.producer_id < 0:
            producers.end_offset = self._end_offset
        elif header.is_control:
            note_marker(producers, header, batch, first_offset)
        else:
            producers.update(header, first_offset)

    def _segment_for(
        self, size: int, first_offset: int, last_offset: int, timestamp_ms: int, now_ms: int
    ) -> Segment:
        """The active segment, or a new one if it has no room for a batch like this."""
        segment = self._active
        if last_offset - segment.base_offset > _RELATIVE_MAX:
            return self._roll(first_offset, now_ms)
        if not segment.size_bytes:
            return segment
        if (
            segment.size_bytes > self._roll_bytes - size
            or self._age_ms(segment, timestamp_ms, now_ms) > self._roll_ms
            or len(segment.index) >= self._index_entries_max
            or len(segment.time_index) >= self._time_index_entries_max
        ):
            return self._roll(first_offset, now_ms)
        return segment

    @staticmethod
    def _age_ms(segment: Segment, timestamp_ms: int, now_ms: int) -> int:
        begun_ms = segment.first_timestamp_ms
        if begun_ms < -1:
            begun_ms = segment.rolling_timestamp_ms()
        return timestamp_ms - begun_ms if begun_ms >= 0 else now_ms - segment.created_ms

    def _write(self, segment: Segment, data: Buffer) -> None:
        file = segment.file
        try:
            file.write_at(data, segment.size_bytes)
        except OSError as error:
            try:
                file.truncate(segment.size_bytes)
            except OSError:
                self.fail(f"an append failed and could not be undone: {error}")
            raise

    def roll(self, now_ms: int) -> None:
        """Close the active segment and begin a new one, unless it is empty. OSError."""
        self.check_usable()
        if self._active.size_bytes:
            self._roll(self._end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        """Begin a new active segment; on OSError the old one stays."""
        old = self._active
        opened: list[tuple[Segment | None, File]] = []
        new = Segment(self._disk, self._cache, self.directory, base_offset, now_ms=now_ms)
        try:
            opened.extend((old, file) for file in self._seal(old))
            opened.append((None, self._write_snapshot(base_offset)))
            new.create()
        except OSError:
            for _, file in opened:
                file.close()
            new.close()
            raise
        self._unsynced.extend(opened)
        self._names_changed += 1
        old.is_active = False
        new.is_active = True
        self._segments.append(new)
        self._bases.append(base_offset)
        self._active = new
        return new

    def _seal(self, segment: Segment) -> list[File]:
        newest = segment.largest_timestamp()
        segment.time_index.maybe_append(*newest)
        return segment.write_indexes()

    def _write_snapshot(self, offset: int) -> File:
        file = self._disk.open(self._path(offset_file(offset, SNAPSHOT_SUFFIX)), create=True)
        try:
            file.truncate(0)
            file.write_at(self.producers.encode(), 0)
        except OSError:
            file.close()
            raise
        self._snapshots.add(offset)
        return file

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    # ---- reading

    def read(
        self, offset: int, max_bytes: int, upper_bound_offset: int, min_one_batch: bool = True
    ) -> ReadResult:
        """Whole batches from the one with `offset` on, none with a record at the bound or behind.

        At most `max_bytes`, except that `min_one_batch` gives the first batch whatever its size.
        Batches come from one segment, so there may be more than was returned. Raises
        OffsetOutOfRange, CorruptFileError, LogFailedError, OSError.
        """
        self.check_usable()
        if not self._start_offset <= offset <= self._end_offset:
            raise OffsetOutOfRange(offset, self._start_offset, self._end_offset)
        bound = min(upper_bound_offset, self._end_offset)
        if offset < bound:
            at = max(bisect_right(self._bases, offset) - 1, 0)
            for segment in self._segments[at:]:
                if segment.base_offset >= bound:
                    break
                data = self._read_segment(segment, offset, max_bytes, bound, min_one_batch)
                if data is not None:
                    first_offset = int.from_bytes(data[:8]) if data else offset
                    buffers: list[Buffer] = [data] if data else []
                    return ReadResult(buffers, len(data), first_offset)
        return ReadResult([], 0, offset)

    def _read_segment(
        self, segment: Segment, offset: int, max_bytes: int, bound: int, min_one_batch: bool
    ) -> bytes | None:
        """Batches of one segment; None if it has nothing at or behind the offset."""
        try:
            return _read_range(segment, offset, max_bytes, bound, min_one_batch)
        except CorruptFileError:
            # Perhaps it is only the index that is damaged.
            segment.rebuild_indexes(self._index_interval_bytes)
            return _read_range(segment, offset, max_bytes, bound, min_one_batch)

    def read_all_batches(
        self, from_offset: int, upto: int
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Every batch with a record from `from_offset` on that ends below `upto`, in order.

        Raises OffsetOutOfRange, CorruptFileError, LogFailedError, OSError.
        """
        self.check_usable()
        if not self._start_offset <= from_offset <= self._end_offset:
            raise OffsetOutOfRange(from_offset, self._start_offset, self._end_offset)
        at = max(bisect_right(self._bases, from_offset) - 1, 0)
        for segment in self._segments[at:]:
            if segment.base_offset >= upto:
                return
            start = segment.position_of(from_offset)
            for header, batch in segment.batches(start, segment.size_bytes):
                if header.last_offset >= upto:
                    return
                yield header, batch

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampedOffset | None:
        """The first record whose timestamp is not below `timestamp_ms`; None if there is none.

        Raises CorruptFileError, BatchError (a batch that does not decompress), OSError.
        """
        self.check_usable()
        for segment in self._segments:
            if segment.largest_timestamp().timestamp_ms < timestamp_ms:
                continue
            entry = segment.time_index.floor(timestamp_ms)
            begin = max(segment.base_offset + entry.relative_offset, self._start_offset)
            if entry.timestamp_ms < 0:
                begin = max(segment.base_offset, self._start_offset)
            start = segment.position_of(begin)
            for position, header in segment.headers(start, segment.size_bytes):
                if header.max_timestamp < timestamp_ms:
                    continue
                found = self._record_at(segment, position, header, timestamp_ms)
                if found is not None:
                    return found
        return None

    def max_timestamp(self) -> TimestampedOffset | None:
        """The record with the largest timestamp, the first of several; None in an empty log.

        Raises as `offset_for_timestamp`.
        """
        self.check_usable()
        newest = max(self._segments, key=lambda segment: segment.largest_timestamp().timestamp_ms)
        timestamp_ms, relative = newest.largest_timestamp()
        if timestamp_ms < 0:
            return None
        start = newest.position_of(newest.base_offset + relative)
        for position, header in newest.headers(start, newest.size_bytes):
            if header.max_timestamp >= timestamp_ms:
                return self._record_at(newest, position, header, timestamp_ms)
        return None

    def _record_at(
        self, segment: Segment, position: int, header: BatchHeader, timestamp_ms: int
    ) -> TimestampedOffset | None:
        data = segment.read(position, position + header.size_bytes)
        epoch = header.partition_leader_epoch
        for record in read_batch(data, 0, header):
            if record.timestamp_ms >= timestamp_ms and record.offset >= self._start_offset:
                return TimestampedOffset(
                    record.offset, record.timestamp_ms, epoch if epoch >= 0 else None
                )
        return None

    # ---- cutting

    def truncate_to(self, offset: int) -> None:
        """Cut the log so that it ends at `offset`, durably; nothing if it ends there or before.

        A batch that `offset` lies in goes as a whole. Raises LogFailedError, OSError.
        """
        self.check_usable()
        if offset >= self._end_offset:
            return
        if offset < self._segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        self._prepare_cut(offset)
        try:
            self._retire_from_the_end(offset)
            segment = self._active
            position = segment.position_of(offset)
            if position < segment.size_bytes:
                first = next(segment.walk(position, segment.size_bytes), None)
                if first is not None and first[2] < offset:
                    offset = first[2]
                    self._prepare_cut(offset)
            segment.file.truncate(position)
            segment.file.sync()
            segment.truncate_memory(position, offset)
            segment.synced_bytes = position
            self._finish_cut(offset)
        except OSError as error:
            self.fail(f"a truncation failed: {error}")
            raise

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Empty the log, durably; its next record gets `offset`. LogFailedError, OSError."""
        self.check_usable()
        self._prepare_cut(min(offset, self._start_offset))
        try:
            self._retire_from_the_end(-1)
            new = Segment(self._disk, self._cache, self.directory, offset, now_ms=0)
            new.create()
            new.is_active = True
            self._segments.append(new)
            self._bases.append(offset)
            self._active = new
            self._start_offset = offset
            for snapshot in sorted(self._snapshots):
                self._remove_snapshot(snapshot)
            self._finish_cut(offset)
            self._recovery_point = offset
        except OSError as error:
            self.fail(f"a truncation failed: {error}")
            raise

    def _prepare_cut(self, offset: int) -> None:
        """Take back what was promised about the offsets that are about to go."""
        if offset < self._recovery_point:
            self._lower_recovery_point(offset)
            self._recovery_point = offset
        for job in self._jobs:
            job.end_offset = min(job.end_offset, offset)

    def _retire_from_the_end(self, offset: int) -> None:
        """Delete segments that begin behind `offset`, the last first."""
        while self._segments and self._segments[-1].base_offset > offset:
            self._retire(self._segments.pop())
            self._bases.pop()
            self._disk.sync_dir(self.directory)
        if self._segments:
            self._active = self._segments[-1]
            # Its indexes are needed whole from now on; the files are written again when it closes.
            assert len(self._active.index) >= 0 and len(self._active.time_index) >= 0
            self._active.is_active = True

    def _finish_cut(self, end_offset: int) -> None:
        self._end_offset = end_offset
        self._start_offset = min(self._start_offset, end_offset)
        for snapshot in sorted(self._snapshots):
            if snapshot > end_offset:
                self._remove_snapshot(snapshot)
        self._disk.sync_dir(self.directory)
        self.epochs.truncate_from_end(end_offset)
        load_producers(
            self._disk, self.directory, self._segments, self._snapshots, self.producers,
            self._start_offset, end_offset,
        )  # fmt: skip

    def _remove_snapshot(self, offset: int) -> None:
        self._disk.unlink(self._path(offset_file(offset, SNAPSHOT_SUFFIX)))
        self._snapshots.discard(offset)

    def advance_start_offset(self, offset: int) -> None:
        """Records below `offset` are deleted; segments that have no others go at once.

        Nothing happens if the log starts there or later. Raises OffsetOutOfRange beyond the end,
        LogFailedError, OSError.
        """
        self.check_usable()
        if offset > self._end_offset:
            raise OffsetOutOfRange(offset, self._start_offset, self._end_offset)
        if offset > self._start_offset:
            self._start_offset = offset
            self.epochs.truncate_from_start(offset)
            self._retire_oldest(bisect_right(self._bases, offset) - 1)

    def apply_retention(self, now_ms: int, high_watermark: int) -> int:
        """Delete old segments as the configs say, none with a record from `high_watermark` on.

        Also forgets producers that have been silent too long. The number of segments deleted.
        Raises LogFailedError, OSError.
        """
        self.check_usable()
        self.producers.remove_expired(now_ms)
        count = max(bisect_right(self._bases, self._start_offset) - 1, 0)
        if self._config.is_deleted:
            count = max(count, self._expired_by_age(now_ms, high_watermark))
            count = max(count, self._expired_by_size(high_watermark))
        if count == len(self._segments):
            self._roll(self._end_offset, now_ms)
        if count:
            base = self._bases[count]
            if base > self._start_offset:
                self._start_offset = base
                self.epochs.truncate_from_start(base)
            self._retire_oldest(count)
        return count

    def _next_base(self, at: int) -> int:
        return self._bases[at + 1] if at + 1 < len(self._bases) else self._end_offset

    def _expired_by_age(self, now_ms: int, high_watermark: int) -> int:
        retention_ms = self._config.retention_ms
        if retention_ms < 0:
            return 0
        for at, segment in enumerate(self._segments):
            if self._next_base(at) > high_watermark or self._is_empty_active(segment):
                return at
            newest_ms = segment.largest_timestamp().timestamp_ms
            if newest_ms < 0:
                newest_ms = self._disk.modified_ms(segment.path())
            if now_ms - newest_ms <= retention_ms:
                return at
        return len(self._segments)

    def _expired_by_size(self, high_watermark: int) -> int:
        if self._config.retention_bytes < 0:
            return 0
        excess = self.size_bytes - self._config.retention_bytes
        for at, segment in enumerate(self._segments):
            excess -= segment.size_bytes
            if excess < 0 or self._next_base(at) > high_watermark or self._is_empty_active(segment):
                return at
        return len(self._segments)

    @staticmethod
    def _is_empty_active(segment: Segment) -> bool:
        return segment.is_active and not segment.size_bytes

    def _retire_oldest(self, count: int) -> None:
        """Delete the first `count` segments, the oldest first."""
        if count <= 0:
            return
        try:
            for left in range(count - 1, -1, -1):
                self._retire(self._segments.pop(0))
                self._bases.pop(0)
                if left:
                    self._disk.sync_dir(self.directory)
        except OSError as error:
            self.fail(f"deleting a segment failed: {error}")
            raise
        self._names_changed += 1

    def _retire(self, segment: Segment) -> None:
        """Rename the segment's files out of the way and let go of it."""
        segment.is_retired = True
        segment.close()
        for owner, file in self._unsynced:
            if owner is segment:
                file.close()
        self._unsynced = [item for item in self._unsynced if item[0] is not segment]
        names = [segment.path(suffix) for suffix in SEGMENT_SUFFIXES]
        if segment.base_offset in self._snapshots and self._segments:
            names.append(self._path(offset_file(segment.base_offset, SNAPSHOT_SUFFIX)))
            self._snapshots.discard(segment.base_offset)
        for name in names:
            if self._disk.exists(name):
                self._disk.rename(name, name + DELETED_SUFFIX)
                self._deleted.append((name + DELETED_SUFFIX, None))

    def delete_old_files(self, now_ms: int) -> int:
        """Unlink files deleted `file.delete.delay.ms` ago or earlier; how many. OSError.

        The delay counts from the first call after the deletion.
        """
        due: list[tuple[str, int | None]] = []
        waiting: list[tuple[str, int | None]] = []
        delay_ms = self._config.file_delete_delay_ms
        for path, since_ms in self._deleted:
            since_ms = now_ms if since_ms is None else since_ms
            (due if now_ms - since_ms >= delay_ms else waiting).append((path, since_ms))
        self._deleted = waiting
        for path, _ in due:
            self._disk.unlink(path)
        return len(due)

    # ---- durability

    def begin_flush(self) -> FlushJob:
        """A job that makes everything appended so far durable. OSError (too many open files).

        Of a log that has failed, the job's `run` says so.
        """
        job = FlushJob(self, self._end_offset)
        if self._failure is not None or self._is_closed:
            return job
        for segment in reversed(self._segments):
            if segment.is_dirty:
                job.files.append((segment, segment.file))
                job.marks.append((segment, segment.size_bytes))
            elif not segment.is_active:
                break
        job.files.extend(self._unsynced)
        if self._epochs_written != self.epochs.version:
            job.epochs = self.epochs.version, self.epochs.encode()
        if self._names_synced != self._names_changed or job.epochs is not None:
            job.directories.append(self.directory)
        if not self._parent_synced:
            job.directories.append(self.directory.rpartition("/")[0] or "/")
        job.names_changed = self._names_changed
        self._jobs.append(job)
        return job

    def sync_names(self, job: FlushJob) -> None:
        """The part of `FlushJob.run` that is not about open files."""
        if job.epochs is not None:
            path = self._path(LEADER_EPOCH_FILE)
            self._disk.write_atomic(path, job.epochs[1], sync_directory=False)
        for directory in job.directories:
            self._disk.sync_dir(directory)

    def finish_flush(self, job: FlushJob) -> None:
        """The job has run: what it covers is durable. LogFailedError."""
        self.check_usable()
        self._jobs.remove(job)
        for segment, size in job.marks:
            segment.synced_bytes = max(segment.synced_bytes, min(size, segment.size_bytes))
        if job.files:
            done = {id(file) for _, file in job.files}
            for _, file in self._unsynced:
                if id(file) in done:
                    file.close()
            self._unsynced = [item for item in self._unsynced if id(item[1]) not in done]
        if job.epochs is not None:
            self._epochs_written = job.epochs[0]
        if job.directories:
            self._names_synced = max(self._names_synced, job.names_changed)
            self._parent_synced = True
        self._recovery_point = max(self._recovery_point, job.end_offset)

    def flush(self) -> None:
        """Make everything durable, here and now. LogFailedError, OSError."""
        job = self.begin_flush()
        job.run()
        self.finish_flush(job)

    # ---- the end

    def close(self, clean: bool = True) -> None:
        """Let go of the log's files; with `clean` so that it can be opened without recovery.

        Raises LogFailedError, OSError if that cannot be done; the files are let go of all the same.
        """
        if self._is_closed:
            return
        try:
            if clean:
                self.check_usable()
                self._close_cleanly()
        finally:
            self._is_closed = True
            for segment in self._segments:
                segment.close()
            for _, file in self._unsynced:
                file.close()

    def _close_cleanly(self) -> None:
        active = self._active
        if active.is_active and self._is_changed():
            self._unsynced.extend((active, file) for file in self._seal(active))
            if self._end_offset not in self._snapshots:
                self._unsynced.append((None, self._write_snapshot(self._end_offset)))
            self._names_changed += 1
        self.flush()
        for path, _ in self._deleted:
            self._disk.unlink(path)
        self._deleted.clear()

    def _is_changed(self) -> bool:
        """Whether closing cleanly has anything to write beyond what is there."""
        return self.recovery.was_unclean or self._end_offset != self.recovery.end_offset

    def delete(self, unique: str) -> str:
        """Close the log and rename its directory so that it is removed later; the new path.

        `unique` sets the new name apart from other deletions. OSError.
        """
        with contextlib.suppress(OSError):
            self.close(clean=False)
        self._is_closed = True
        parent, _, _ = self.directory.rpartition("/")
        target = f"{parent}/{deleted_dir(self.topic, self.partition, unique)}"
        self._disk.rename(self.directory, target)
        self._disk.sync_dir(parent or "/")
        return target


def _read_range(
    segment: Segment, offset: int, max_bytes: int, bound: int, min_one_batch: bool
) -> bytes | None:
    start = segment.position_of(offset)
    if start >= segment.size_bytes:
        return None
    end = segment.size_bytes if bound >= segment.next_offset else segment.position_of(bound)
    if end - start > max_bytes:
        cut = segment.boundary_at_most(start, start + max(max_bytes, 0))
        if cut == start and min_one_batch:
            cut = start + next(segment.walk(start, end), (0, 0, 0, 0))[1]
        end = min(cut, end)
    elif end == segment.size_bytes and segment.is_active:
        segment.hint(segment.next_offset, end)
    return segment.read(start, end) if end > start else b""


def note_marker(
    producers: ProducerStates, header: BatchHeader, batch: Buffer, first_offset: int
) -> None:
    """Let `producers` know of a transaction's end marker, a control batch at `first_offset`."""
    placed = header._replace(base_offset=first_offset)
    try:
        markers = [record.value for record in read_control(batch, check=False)]
    except BatchError:
        markers = []
    for marker in markers:
        if isinstance(marker, EndTxnMarker):
            producers.complete_transaction(placed, marker.coordinator_epoch)
            return
    producers.end_offset = placed.next_offset


def _nobody_to_tell(recovery_point: int) -> None:
    """A log on its own has no checkpoint that could say too much."""
