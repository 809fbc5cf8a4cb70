"""One partition's log: appended to at one end, read anywhere, cut at either end, and durable.

Theory of operation
-------------------
A log is a row of segments; the last one, the active one, grows. It decides where bytes go and when
a new segment is begun; it knows nothing of leaders, high watermarks or clients. One thread owns it.
Only `FlushJob.run`, `Cleaning.run` and `Swap.run` may be called on another.

How it is looked at and read is `readable_log`, how it grows `appendable_log`; here it is opened,
cut, compacted, made durable and closed. What it knows besides is kept by parts of its own:
`segment_row` (the files), `durability`, `cleaner.owner` (compaction), `rolling`, `health`.

`recovery_point` says what is durable: everything below it survives the machine. It moves up only in
`finish_flush`.

The disk may refuse. After a failed sync or cut, and an append that failed and could not be undone,
the log has failed for good: every further call raises LogFailedError, and the truth is found out by
recovery when the log is opened again. A sync is never repeated for a better answer.

Cutting the log below what is written down as durable, or as its start, must be written down, too,
before it happens, or recovery would miss what was cut: `lower_checkpoints(recovery_point, start)`
is called first and must have made it durable when it returns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from fencepost.log.appendable_log import AppendableLog
from fencepost.log.batch_repair import repair_batch
from fencepost.log.cleaner.owner import CleaningOwner
from fencepost.log.cleaner.plan import Dirt, measure_dirt
from fencepost.log.config import LogConfig
from fencepost.log.disk import Buffer, Disk
from fencepost.log.durable_end import DurableEnd
from fencepost.log.errors import CorruptFileError, OffsetOutOfRange
from fencepost.log.flush import FlushJob
from fencepost.log.load_params import LoadLogParams
from fencepost.log.loaded import LoadedLog
from fencepost.log.loading import load_log
from fencepost.log.names import deleted_dir
from fencepost.log.replay import load_producers, settle_active
from fencepost.log.retention import segments_to_delete
from fencepost.log.segment_cache import SegmentCache

if TYPE_CHECKING:
    from fencepost.log.cleaner.job import Cleaning, Copied
    from fencepost.log.cleaner.swap import Swap


class ExpiredSegments(Struct, frozen=True):
    """The oldest segments are to go, so many: the log then starts at `end_offset`."""

    segments: int
    end_offset: int


class PartitionLog(AppendableLog):
    """See the module docstring; made by `open`."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        loaded: LoadedLog,
        lower_checkpoints: Callable[[int, int], None],
    ) -> None:
        super().__init__(disk, directory, topic, partition, config, loaded)
        self._is_changed = loaded.report.was_unclean and loaded.row.size_bytes > 0
        self._lower_checkpoints = lower_checkpoints
        self._cleaner = CleaningOwner(disk, directory, loaded.row, self._health)
        self.cuts = 0
        """How often its end was cut, since it was opened."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        params: LoadLogParams,
        *,
        cache: SegmentCache | None = None,
        lower_checkpoints: Callable[[int, int], None] | None = None,
    ) -> PartitionLog:
        """Open the log in `directory`, which is made if it is not there.

        After a clean shutdown the files are trusted; otherwise everything from the recovery point
        on is checked, cut at the first batch that is not whole and sound, and synced. Open files
        are counted by `cache`, one of its own if it is None; `lower_checkpoints`: see the module.

        Raises DurableDataLostError if records below the recovery point are gone or damaged (unless
        `params.accept_loss`), InconsistentTopicIdError, CorruptFileError, OSError.
        """
        cache = SegmentCache() if cache is None else cache
        loaded = load_log(disk, cache, directory, config, params)
        lower = lower_checkpoints or _no_checkpoints
        return cls(disk, directory, topic, partition, config, loaded, lower)

    def share(self, cache: SegmentCache) -> None:
        """Count the log's open files among those of `cache` from now on."""
        self._row.share(cache)

    # ---- truncation and repair

    def repair_batch(self, offset: int, batch: Buffer) -> None:
        """Put a good copy of the damaged batch at `offset` in its place, durably.

        Raises ValueError if it does not fit, OffsetOutOfRange, CorruptFileError, LogFailedError,
        OSError.
        """
        self._check_readable(offset)
        repair_batch(self._row.from_offset(offset)[0], offset, batch)

    def truncate_to(self, offset: int) -> None:
        """Cut the log so that it ends at `offset`, durably; nothing if it ends there or before.

        An epoch that begins at `offset` goes, too: one that we led and wrote nothing in.
        A batch that `offset` lies in goes as a whole, and the log then ends where it began.
        Raises LogFailedError, OSError.
        """
        self.check_usable()
        if offset >= self._end_offset:
            if offset == self._end_offset:
                self.epochs.truncate_from_end(offset)
            return
        self._cleaner.stop()
        segment = self._row.from_offset(offset)[0]
        position = segment.position_of(offset)
        inside = segment.base_offset_at(position)
        cut = offset if inside is None else min(offset, inside)
        if cut < self._start_offset or offset < segment.base_offset or not cut:
            # No record is left that may be read. Recovery has to know it from a new log.
            self.truncate_fully_and_start_at(min(offset, self._start_offset))
            return
        self._prepare_cut(cut, min(cut, self._start_offset))
        try:
            self._row.retire_behind(offset)
            assert self._row.active is segment
            segment.truncate(position, cut)
            self._finish_cut(cut)
        except (CorruptFileError, OSError) as error:
            self.fail(f"a truncation failed: {error}")
            raise

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Empty the log, durably; its next record gets `offset`. LogFailedError, OSError."""
        self.check_usable()
        # Half-way there may be nothing left that could be promised to be durable.
        self._prepare_cut(0, min(offset, self._start_offset))
        try:
            self._row.retire_behind(-1)
            self._row.start_over(offset)
            self._row.remove_snapshots_above(-1)
            self._start_offset = offset
            self.epochs.clear()
            self._finish_cut(offset)
            self._durability.recovery_point = offset
        except (CorruptFileError, OSError) as error:
            self.fail(f"a truncation failed: {error}")
            raise

    def _prepare_cut(self, offset: int, start_offset: int) -> None:
        """Take back what was promised about the offsets that are about to go. OSError."""
        self._is_changed = True
        self._cleaner.stop()
        if offset < self._durability.recovery_point or start_offset < self._start_offset:
            self._lower_checkpoints(offset, start_offset)
        self._durability.take_back(offset)

    def _finish_cut(self, end_offset: int) -> None:
        self.cuts += 1
        self._end_offset = end_offset
        self._start_offset = min(self._start_offset, end_offset)
        self._row.remove_snapshots_above(end_offset)
        self._durability.sync_names()
        self.epochs.truncate_from_end(end_offset)
        index_from = settle_active(self._row, end_offset)
        load_producers(self.disk, self._row, self.producers, end_offset, index_from)

    def advance_start_offset(self, offset: int) -> None:
        """Records below `offset` are deleted; segments that have no others go at once.

        Nothing happens if the log starts there or later. Raises OffsetOutOfRange beyond the end,
        LogFailedError, OSError.
        """
        self.check_usable()
        if offset > self._end_offset:
            raise OffsetOutOfRange(offset, self._start_offset, self._end_offset)
        self._delete_below(offset)

    def expired_segments(self, wall_ms: int, high_watermark: int) -> ExpiredSegments:
        """The old segments that the configs have deleted, none with a record from the mark on.

        The active one is closed if it is among them. To be deleted with `advance_start_offset`.
        Raises LogFailedError, CorruptFileError, OSError.
        """
        self.check_usable()
        self._cleaner.settle_swap()
        row = self._row
        count = segments_to_delete(
            row.segments,
            self._config,
            below_start=row.count_below(self._start_offset),
            end_offset=self._end_offset,
            high_watermark=high_watermark,
            wall_ms=wall_ms,
            modified_ms=lambda segment: self.disk.modified_ms(segment.path()),
        )
        if count == len(row):
            self.roll(wall_ms)
        if not count:
            return ExpiredSegments(0, self._start_offset)
        return ExpiredSegments(count, max(row.segments[count].base_offset, self._start_offset))

    def _delete_below(self, offset: int) -> None:
        if offset > self._start_offset:
            self._start_offset = offset
            self.epochs.truncate_from_start(offset)
        count = self._row.count_below(offset)
        if not count:
            return
        self._cleaner.stop()
        try:
            # What takes over as the first segment must be there before the others are gone.
            self._durability.settle_names()
            self._row.retire_oldest(count)
        except OSError as error:
            self.fail(f"deleting a segment failed: {error}")
            raise

    @property
    def has_deleted_files(self) -> bool:
        """Whether there is anything for `delete_old_files` to unlink, now or later."""
        return self._row.has_deleted_files

    def delete_old_files(self, now_ms: int) -> int:
        """Unlink files deleted `file.delete.delay.ms` ago or earlier; how many. OSError.

        The delay counts from the first call after the deletion.
        """
        return self._row.delete_old_files(now_ms, self._config.file_delete_delay_ms)

    # ---- compaction

    def measure_dirt(self, cleaned_offset: int | None, high_watermark: int, wall_ms: int) -> Dirt:
        """How much there is to compact, `cleaned_offset` being what the checkpoint says of it.

        Nothing counts that is undecided, not replicated or not durable. Raises LogFailedError,
        CorruptFileError, OSError.
        """
        self.check_usable()
        self._cleaner.settle_swap()
        return measure_dirt(
            self._row.segments,
            self._config,
            start_offset=self._start_offset,
            end_offset=self._end_offset,
            stable_offset=min(self.last_stable_offset(high_watermark), self.recovery_point),
            cleaned_offset=cleaned_offset,
            wall_ms=wall_ms,
        )

    def begin_cleaning(self, dirt: Dirt, wall_ms: int) -> Cleaning:
        """A job that compacts the log as far as `dirt` says; one at a time.

        Raises LogFailedError, CorruptFileError, OSError.
        """
        self.check_usable()
        return self._cleaner.begin_cleaning(
            dirt,
            self._config,
            self._start_offset,
            self.producers,
            self.aborted_transactions,
            wall_ms,
        )

    def begin_swap(self, cleaning: Cleaning, copied: Copied) -> Swap:
        """Read from the copy instead of the segments it was made of, from now on.

        The job that is returned gives the files their names. Raises CleaningAbortedError if those
        segments are not what they were, LogFailedError.
        """
        self.check_usable()
        swap = self._cleaner.begin_swap(cleaning, copied)
        self._is_changed = True
        return swap

    def finish_swap(self, swap: Swap) -> None:
        """The job has run, or runs now. LogFailedError, OSError."""
        self._cleaner.finish_swap(swap)

    def end_cleaning(self, cleaning: Cleaning) -> None:
        """The job has run, or will not; another one may begin."""
        self._cleaner.end_cleaning(cleaning)

    # ---- durability

    def begin_flush(self) -> FlushJob:
        """A job that makes everything appended so far durable. OSError (too many open files).

        Of a log that has failed, the job's `run` says so.
        """
        return self._durability.begin(self._end_offset)

    def finish_flush(self, job: FlushJob) -> None:
        """The job has run: what it covers is durable. LogFailedError."""
        self.check_usable()
        self._durability.finish(job)

    def flush(self) -> None:
        """Make everything durable, here and now. LogFailedError, OSError."""
        job = self.begin_flush()
        job.run()
        self.finish_flush(job)

    def keep_durable_end(self, end: DurableEnd) -> None:
        """Have `end` say from now on how far the log is durable."""
        end.note(self.recovery_point)
        self._durability.durable_end = end

    # ---- the end

    def close(self, clean: bool = True) -> None:
        """Let go of the log's files; with `clean` so that it can be opened without recovery.

        Raises LogFailedError, OSError if that cannot be done; the files are let go of all the same.
        """
        if self._health.is_closed:
            return
        try:
            self._cleaner.abort()
            if self._health.failure is None:
                self._cleaner.settle_swap()
            if clean:
                job = self.begin_close()
                if job is not None:
                    job.run()
                    self.finish_flush(job)
                self._row.delete_old_files(0, 0)
        finally:
            self._health.is_closed = True
            self._row.close()

    def begin_close(self) -> FlushJob | None:
        """Write what a clean end needs; the job to be done before `close`, None if there is none.

        A log that has not changed needs nothing: what an empty one may lose is made again. Raises
        LogFailedError, OSError.
        """
        self.check_usable()
        if self._is_changed:
            self._is_changed = False
            self._row.seal_active(self._end_offset, self.producers.encode())
        return self._durability.begin_last(self._end_offset)

    def delete(self, unique: str) -> str:
        """Close the log and rename its directory so that it is removed later; the new path.

        `unique` sets the new name apart from other deletions. OSError.
        """
        with contextlib.suppress(OSError):
            self.close(clean=False)
        parent, _, _ = self.directory.rpartition("/")
        target = f"{parent}/{deleted_dir(self.topic, self.partition, unique)}"
        self.disk.rename(self.directory, target)
        self.disk.sync_dir(parent or "/")
        return target

    def rename_to(
        self, directory: str, lower_checkpoints: Callable[[int, int], None] | None = None
    ) -> None:
        """Rename the log's directory, durably; the log stays open. No flush may be under way.

        `lower_checkpoints` is what the new name has for it. LogFailedError, OSError.
        """
        self.check_usable()
        self._cleaner.stop()
        self._row.delete_old_files(0, 0)
        self.disk.rename(self.directory, directory)
        self.directory = directory
        self._row.directory = self._durability.directory = self._cleaner.directory = directory
        for segment in self._row.segments:
            segment.directory = directory
        self._lower_checkpoints = lower_checkpoints or _no_checkpoints
        self.disk.sync_dir(directory.rpartition("/")[0] or "/")

    @property
    def is_being_cleaned(self) -> bool:
        """Whether a compaction of it has begun and not ended."""
        return self._cleaner.is_at_work


def _no_checkpoints(recovery_point: int, start_offset: int) -> None:
    """A log on its own has no checkpoint that could say too much."""
