"""A log directory: many partitions' logs, and what is written down about all of them together.

Theory of operation
-------------------
One process at a time has the directory; the lock is the kind Kafka takes. Three checkpoint files
say of every partition how far it is durable, where it starts and what its high watermark was, and a
fourth how far it has been compacted. They are written now and then (`checkpoint`; the fourth after
each compaction) and may be behind the truth, never ahead of it:

* before a log is cut below its recovery point, the file is lowered;
* before a partition is created whose name is in the files already, it is struck
  out of them.

Of a log whose owner has made promises about it, a file more says so to the last flush
(`keep_durable_end`); what it says goes with the recovery point.

A file that cannot be read is as good as none: everything is then recovered from its beginning.

The marker of a clean shutdown is taken away when the directory is opened, and put back by `close`
only if every log of the directory has been closed cleanly, in this life or in an earlier one.

A deleted partition's directory is renamed to `...-delete` at once, and emptied by a later
`checkpoint` or the next start.

Open files: see `SegmentCache`; apart from those, the lock, and a few while something is written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from msgspec.structs import replace

from fencepost.log.checkpoints import KeptCheckpoint, TopicPartition
from fencepost.log.config import LogConfig
from fencepost.log.deleted_dirs import DeletedDirs
from fencepost.log.disk import Disk
from fencepost.log.durable_end import DurableEnd
from fencepost.log.errors import CorruptFileError, LogError
from fencepost.log.flush_to_close import FILES_WHILE_CLOSING, flush_to_close
from fencepost.log.load_params import LoadLogParams
from fencepost.log.meta import (
    MetaProperties,
    read_clean_shutdown,
    read_meta_properties,
    read_partition_metadata,
    remove_clean_shutdown,
    write_clean_shutdown,
)
from fencepost.log.names import (
    CLEANER_FILE,
    DURABLE_END_SUFFIX,
    HIGH_WATERMARK_FILE,
    LOCK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    STRAY_DIR_SUFFIX,
    deleted_dir,
    is_former_dir,
    parse_future_dir,
    parse_partition_dir,
    partition_dir,
    stray_dir,
)
from fencepost.log.open_job import OpenJob
from fencepost.log.partition_log import PartitionLog
from fencepost.log.producers import PRODUCER_ID_EXPIRATION_MS
from fencepost.log.segment_cache import SegmentCache
from fencepost.wire.types import Uuid

if TYPE_CHECKING:
    from fencepost.log.cleaner.job import Cleaning

log = logging.getLogger(__name__)

_FILES_WHILE_LOADING: Final = 4
"""Segment files that one log may have open while it is being opened."""


class LogDir:
    """See the module docstring; made by `open`."""

    def __init__(
        self, disk: Disk, path: str, cache: SegmentCache, producer_id_expiration_ms: int
    ) -> None:
        self.path = path
        self.disk = disk
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.failed: dict[TopicPartition, Exception] = {}
        """Partitions that `open_all` could not open, and why."""
        self._cache = cache
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._lock = disk.lock(f"{path}/{LOCK_FILE}")
        try:
            self.meta: MetaProperties = read_meta_properties(disk, path)
            self._points = KeptCheckpoint(disk, f"{path}/{RECOVERY_POINT_FILE}")
            self._starts = KeptCheckpoint(disk, f"{path}/{LOG_START_OFFSET_FILE}")
            self._high_watermarks = KeptCheckpoint(disk, f"{path}/{HIGH_WATERMARK_FILE}")
            self._cleaned = KeptCheckpoint(disk, f"{path}/{CLEANER_FILE}")
            # What the last process renamed and did not live to sync must not be seen and then lost.
            disk.sync_dir(path)
            broker_epoch = read_clean_shutdown(disk, path)
            remove_clean_shutdown(disk, path)
        except BaseException:
            self._lock.release()
            raise
        self.was_clean = broker_epoch is not None
        """Whether the directory had been closed cleanly."""
        self.previous_broker_epoch = -1 if broker_epoch is None else broker_epoch
        """The epoch of the broker that closed it cleanly; -1 if it was not, or did not say."""
        self._ends: dict[TopicPartition, DurableEnd] = {}
        self._given_up: set[TopicPartition] = set()
        self._untouched = set(self.partitions_on_disk())
        self._deleted = DeletedDirs(disk, path)
        self.strays = sum(name.endswith(STRAY_DIR_SUFFIX) for name in disk.list(path))
        """How many stray directories there were at the start, and were set aside since."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        *,
        files_max: int = 256,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> LogDir:
        """Take possession of the formatted directory at `path`; its logs are not opened yet.

        `files_max` bounds open segment files; see `SegmentCache`. Raises LogDirLockedError,
        LogDirNotFormattedError, CorruptFileError (meta.properties), OSError.
        """
        cache = SegmentCache(files_max)
        return cls(disk, path.rstrip("/") or "/", cache, producer_id_expiration_ms)

    # ---- logs

    def keep_durable_end(self, topic: str, partition: int) -> None:
        """Write down after each flush how far this log is durable; see `durable_end`. OSError.

        To be called before the log is opened, and `begin_durable_end` after it.
        """
        path = f"{self.path}/{partition_dir(topic, partition)}{DURABLE_END_SUFFIX}"
        self._ends[topic, partition] = DurableEnd(self.disk, path)

    def begin_durable_end(self, partition_log: PartitionLog) -> None:
        """From now on; makes the log's directory durable, and then the file. OSError."""
        self.disk.sync_dir(self.path)
        end = self._ends[partition_log.topic, partition_log.partition]
        end.begin()
        partition_log.keep_durable_end(end)

    def partitions_on_disk(self) -> list[TopicPartition]:
        """The partitions that have a directory here. OSError."""
        found = []
        for name in self.disk.list(self.path):
            key = parse_partition_dir(name)
            if key is not None and self.disk.is_dir(f"{self.path}/{name}"):
                found.append(key)
        return found

    def copies_on_disk(self) -> Iterator[tuple[TopicPartition, str]]:
        """The copies on their way that lie here: of which partition, and where. OSError."""
        for name in self.disk.list(self.path):
            key = parse_future_dir(name)
            if key is not None and self.disk.is_dir(f"{self.path}/{name}"):
                yield key, f"{self.path}/{name}"

    def open_all(
        self, config_for: Callable[[str], LogConfig], *, wall_ms: int
    ) -> dict[TopicPartition, PartitionLog]:
        """Open every partition that is here; those that cannot be opened are in `failed`."""
        for topic, partition in self.partitions_on_disk():
            if (topic, partition) in self.logs:
                continue
            try:
                self.create(topic, partition, None, config_for(topic), wall_ms=wall_ms)
            except (LogError, OSError) as error:
                log.error("%s-%d cannot be opened: %s", topic, partition, error)
                self.failed[topic, partition] = error.with_traceback(None)
        return self.logs

    @property
    def open_files(self) -> int:
        """How many segments have their file open, or indexes loaded."""
        return len(self._cache)

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """The partition's log if it is open."""
        return self.logs.get((topic, partition))

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: Uuid | None,
        config: LogConfig,
        *,
        wall_ms: int,
        accept_loss: bool = False,
        is_gapless: bool = False,
    ) -> PartitionLog:
        """The partition's log: the one that is open, or that is on disk, or a new one.

        A directory left by another topic of the same name is set aside first. `accept_loss`,
        `is_gapless`: see `LoadLogParams`. Raises DurableDataLostError (see `PartitionLog.open`),
        CorruptFileError, OSError, and ValueError for what cannot be a topic or a partition.
        """
        key = topic, partition
        present = self.logs.get(key)
        if present is not None:
            if topic_id is None or present.topic_id in (None, topic_id):
                present.config = config
                return present
            self.delete(present)
        job = self.begin_open(
            topic,
            partition,
            topic_id,
            config,
            wall_ms=wall_ms,
            accept_loss=accept_loss,
            is_gapless=is_gapless,
        )
        job.run()
        return self.finish_open(job)

    def begin_open(
        self,
        topic: str,
        partition: int,
        topic_id: Uuid | None,
        config: LogConfig,
        *,
        wall_ms: int,
        accept_loss: bool = False,
        is_gapless: bool = False,
    ) -> OpenJob:
        """The work of opening or creating a log that is not open; see `OpenJob`. OSError."""
        wanted = LoadLogParams(
            wall_ms=wall_ms,
            topic_id=topic_id,
            accept_loss=accept_loss,
            is_gapless=is_gapless,
            producer_id_expiration_ms=self._producer_id_expiration_ms,
        )
        return self._open_job((topic, partition), config, wanted)

    def _open_job(self, key: TopicPartition, config: LogConfig, wanted: LoadLogParams) -> OpenJob:
        """Open it as it is `wanted`, with what is written down about it here. OSError."""
        assert key not in self.logs, f"{key} is open"
        directory = f"{self.path}/{partition_dir(*key)}"
        is_new = not self.disk.is_dir(directory)
        if is_new:
            if self._points.offsets.get(key, 0) and not self._was_renamed(key):
                log.warning("%s no longer exists; creating an empty log", directory)
            self._strike(key)
        params = replace(
            wanted,
            recovery_point=self._recovery_point(key),
            high_watermark=self.high_watermark(*key),
            start_offset=self._starts.offsets.get(key, 0),
            cleaned_offset=self._cleaned.offsets.get(key, 0),
            clean_shutdown=self.was_clean and not is_new and key not in self._given_up,
            # Names that were here when the directory was opened were synced then, all at once.
            is_name_durable=key in self._untouched and key not in self._given_up,
        )

        def load() -> PartitionLog:
            return PartitionLog.open(
                self.disk,
                directory,
                *key,
                config,
                params,
                cache=SegmentCache(_FILES_WHILE_LOADING),
                lower_checkpoints=partial(self._lower, key),
            )

        def begin_anew() -> OpenJob:
            # Not deleted: a bit that flipped in the id must not cost the records.
            self.rename_stray(*key)
            return self._open_job(key, config, wanted)

        return OpenJob(load, begin_anew, needs_recovery=not self.was_clean and not is_new)

    def finish_open(self, job: OpenJob) -> PartitionLog:
        """Take over the log that `job.run` has opened.

        A directory left by another topic of the same name is set aside, and the log made now:
        raises as `OpenJob.run`.
        """
        if job.opened is None:
            job = job.begin_anew()
            job.run()
        opened = job.opened
        assert opened is not None, "the log was made again"
        self._take(opened)
        return opened

    def _take(self, opened: PartitionLog) -> None:
        """From now on the open log is among those of this directory. OSError."""
        key = opened.topic, opened.partition
        opened.share(self._cache)
        self._lower(key, opened.recovery_point, opened.start_offset)
        self.logs[key] = opened
        self.failed.pop(key, None)
        self._untouched.discard(key)

    def take_in(self, copied: PartitionLog) -> None:
        """A log that lies in this directory under another name gets its partition's, and is one of
        ours from then on. All of it must be durable. LogFailedError, OSError."""
        key = copied.topic, copied.partition
        assert key not in self.logs, f"{copied.directory} has been taken in"
        self._strike(key)
        copied.rename_to(f"{self.path}/{partition_dir(*key)}", partial(self._lower, key))
        self._take(copied)
        for checkpoint, at in (
            (self._points, copied.recovery_point),
            (self._starts, copied.start_offset),
        ):
            checkpoint.put(key, at, unless=lambda: False)

    def give_away(self, partition_log: PartitionLog) -> None:
        """Rename a log as if deleted, which may be read until its owner closes it. OSError."""
        key = partition_log.topic, partition_log.partition
        self.logs.pop(key, None)
        partition_log.rename_to(f"{self.path}/{deleted_dir(*key, uuid4().hex)}")

    def _was_renamed(self, key: TopicPartition) -> bool:
        """Whether the partition was deleted or set aside, and its checkpoint not yet written."""
        return any(is_former_dir(name, *key) for name in self.disk.list(self.path))

    def _is_there(self, key: TopicPartition) -> bool:
        return key in self.logs or key in self._untouched

    def _strike(self, key: TopicPartition) -> None:
        """Have no file say anything of a partition that is not there. OSError."""
        for checkpoint in (self._points, self._starts, self._high_watermarks, self._cleaned):
            checkpoint.strike(key, self._is_there)
        if key in self._ends:
            self._ends[key].lower(0)

    def _recovery_point(self, key: TopicPartition) -> int:
        """Everything below had been durable."""
        point = self._points.offsets.get(key, 0)
        return max(point, self._ends[key].offset) if key in self._ends else point

    def _lower(self, key: TopicPartition, recovery_point: int, start_offset: int) -> None:
        if key in self._ends:
            self._ends[key].lower(recovery_point)
        for checkpoint, offset in (
            (self._points, recovery_point),
            (self._starts, start_offset),
            (self._cleaned, recovery_point),
        ):
            checkpoint.lower(key, offset)

    def give_up_from(self, topic: str, partition: int, offset: int) -> None:
        """Have nothing promise, durably, that there is anything from there on. OSError.

        If the log is open it is let go of; when it is opened again it is read through from there
        on, and ends where the first batch is not sound.
        """
        key = topic, partition
        if key in self.logs:
            self.logs.pop(key).close(clean=False)
            self._untouched.add(key)
        self._lower(key, offset, offset)
        self._given_up.add(key)

    def delete(self, partition_log: PartitionLog, unique: str | None = None) -> str:
        """Close the log and delete it: its directory is renamed now, to the name that is returned,
        and emptied later. OSError.

        `unique` sets the directory's new name apart from others; drawn if not given.
        """
        key = partition_log.topic, partition_log.partition
        self.logs.pop(key, None)
        return partition_log.delete(unique or uuid4().hex).rpartition("/")[2]

    def note_deleted(self, name: str, now_ms: int) -> None:
        """A directory got the name of a deleted one now: the delay of its removal counts."""
        self._deleted.add(name, now_ms)

    @property
    def first_deleted_ms(self) -> int | None:
        """When the first partition was deleted whose directory is still there, if any is."""
        return self._deleted.first_ms

    def rename_stray(self, topic: str, partition: int) -> str:
        """Rename the directory of a partition that is not open; its new name. OSError.

        It is left alone from then on.
        """
        name = stray_dir(topic, partition, uuid4().hex)
        path = f"{self.path}/{partition_dir(topic, partition)}"
        self.disk.rename(path, f"{self.path}/{name}")
        self.disk.sync_dir(self.path)
        self._untouched.discard((topic, partition))
        self.strays += 1
        return name

    def unopened(self) -> list[TopicPartition]:
        """The partitions on disk whose logs are not open."""
        return [key for key in self.partitions_on_disk() if key not in self.logs]

    def topic_id_on_disk(self, topic: str, partition: int) -> Uuid | None:
        """The topic id that the partition's directory says it is of; None if it says none."""
        try:
            return read_partition_metadata(
                self.disk, f"{self.path}/{partition_dir(topic, partition)}"
            )
        except (CorruptFileError, OSError):
            return None

    def remove_deleted(self, now_ms: int = 0, delay_ms: int = 0, most: int | None = None) -> int:
        """Remove the directories of partitions deleted `delay_ms` ago, up to `most`; how many.

        The delay counts from the deletion (`note_deleted`), for directories that an earlier process
        left from the first call. OSError.
        """
        due = self._deleted.due(now_ms, delay_ms)
        if due:
            # Or a partition of that name would look as if its directory had been lost.
            self._points.keep(self._is_there)
        return self._deleted.remove(due[:most])

    # ---- what is written down

    def high_watermark(self, topic: str, partition: int) -> int:
        """The partition's high watermark as of the last checkpoint; 0 if there is none."""
        return self._high_watermarks.offsets.get((topic, partition), 0)

    def known_offset(self, topic: str, partition: int) -> int:
        """How far the checkpoints say that the partition's log reached; 0 if they say nothing."""
        key = topic, partition
        known = (self._starts, self._high_watermarks)
        return max(
            self._recovery_point(key), *(checkpoint.offsets.get(key, 0) for checkpoint in known)
        )

    def was_there(self, topic: str, partition: int) -> bool:
        """Whether anything but the partition's own directory tells of a log of it."""
        key = topic, partition
        known = (self._points, self._starts, self._high_watermarks)
        is_marked = key in self._ends and self._ends[key].is_there
        return is_marked or any(key in checkpoint.offsets for checkpoint in known)

    def checkpoint_recovery_points(self) -> None:
        """Write down how far every log is durable. OSError."""
        points = {key: at for key, at in self._points.offsets.items() if key in self._untouched}
        points.update((key, opened.recovery_point) for key, opened in self.logs.items())
        self._points.write(points)
        self._cleaned.keep(self._is_there)

    def checkpoint_start_offsets(self) -> None:
        """Write down where every log starts that does not start at 0. OSError.

        Nothing that is not durable: after a crash, a start behind the log's end must mean damage.
        """
        known = self._starts.offsets
        starts = {key: at for key, at in known.items() if key in self._untouched}
        for key, opened in self.logs.items():
            durable = max(opened.recovery_point, known.get(key, 0))
            if opened.start_offset > 0 and durable > 0:
                starts[key] = min(opened.start_offset, durable)
        self._starts.write(starts)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write down the high watermarks; of partitions not given, the last one stands. OSError."""
        marks = {**self._high_watermarks.offsets, **high_watermarks}
        self._high_watermarks.write({key: at for key, at in marks.items() if self._is_there(key)})

    def cleaned_offset(self, partition_log: PartitionLog) -> int | None:
        """Up to where the log has been compacted, as written down; None if it never was."""
        return self._cleaned.offsets.get((partition_log.topic, partition_log.partition))

    def note_cleaned(self, partition_log: PartitionLog, cleaning: Cleaning) -> None:
        """Write down how far a cleaning has come, unless it was called off. OSError. Any thread.

        What it has put in place must be there for good.
        """
        key = partition_log.topic, partition_log.partition
        self._cleaned.put(key, cleaning.cleaned_offset, unless=lambda: cleaning.is_aborted)

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """All of these, and what deleted partitions have left is removed. OSError."""
        self.checkpoint_recovery_points()
        self.checkpoint_start_offsets()
        self.checkpoint_high_watermarks(high_watermarks or {})
        self.remove_deleted()

    def close(
        self,
        *,
        clean: bool = True,
        broker_epoch: int = -1,
        high_watermarks: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Close all logs and give the directory back; OSError is raised after everything is closed.

        With `clean`, logs are flushed and the marker is left, unless a log has failed or could not
        be opened.
        """
        problem = self._flush_all() if clean else None
        for opened in self.logs.values():
            try:
                opened.close(clean=clean)
            except OSError as error:
                log.error("%s was not closed cleanly: %s", opened.directory, error)
                problem = problem or error
        try:
            if clean and problem is None:
                self.checkpoint(high_watermarks)
                if self._was_all_recovered():
                    write_clean_shutdown(self.disk, self.path, broker_epoch)
        finally:
            for end in self._ends.values():
                end.close()
            self._lock.release()
        if problem is not None:
            raise problem

    def _was_all_recovered(self) -> bool:
        """Whether the next start may trust every log that is here, and need not read any through.

        Not those that this one could not open, for want of space perhaps (KAFKA-13773).
        """
        return not self.failed and (self.was_clean or not self._untouched)

    def close_idle_files(self) -> None:
        """Close segment files that are not needed right now: there is a shortage."""
        self._cache.close_idle()

    def _flush_all(self) -> OSError | None:
        """Make all logs ready to be closed; the first problem met, if any."""
        at_once = self._cache.deferred_max // FILES_WHILE_CLOSING
        return flush_to_close(list(self.logs.values()), at_once, self.disk.sync_threads)
