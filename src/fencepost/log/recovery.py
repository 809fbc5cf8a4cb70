"""Opening a log: from files, some of them torn, to a row of sound segments.

Theory of operation
-------------------
After a clean shutdown the files are what they should be, and only the tail of the active segment is
looked at. After any other end, this holds: what lies below the recovery point was synced; what lies
above may be there, torn, or missing, file by file and name by name. So everything from the segment
with the recovery point on is read, and the log ends where the first batch is not whole, not sound
or does not follow. What was found and kept is synced before anybody is told of it, or a reader
could see records that the next power cut takes away (KAFKA-10101).

A sync alone would not do. If one has failed in the process before, the kernel counts its pages as
written, and the next sync of them succeeds without having written anything. So what lies above the
recovery point is written once more, the same bytes in the same place, and then synced. That costs
as much writing as there was in the last checkpoint interval.

Afterwards the leader epochs are brought into agreement with the log (`epoch_recovery`), and
producer state is that of the newest sound snapshot and the batches behind it (`replay`). The
transaction indexes of all segments that were read are made anew on the way.

Batches below the recovery point that are not there or not sound are no crash but damage or loss.
Cutting the log there would throw acknowledged records away in silence, so it is refused with
DurableDataLostError unless the caller accepts the loss.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import Final

from fencepost.batch.header import (
    BatchHeader,
)
from fencepost.log.config import LogConfig
from fencepost.log.disk import Disk
from fencepost.log.epoch_recovery import recover_epochs
from fencepost.log.epochs import EpochEntry, LeaderEpochCache
from fencepost.log.errors import (
    CorruptFileError,
    DurableDataLostError,
    InconsistentTopicIdError,
)
from fencepost.log.index_builder import IndexBuilder
from fencepost.log.interrupted_cleanup import settle
from fencepost.log.meta import encode_partition_metadata, read_partition_metadata
from fencepost.log.names import (
    LEADER_EPOCH_FILE,
    LOG_START_OFFSET_FILE,
    LOG_SUFFIX,
    PARTITION_METADATA_FILE,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    offset_file,
)
from fencepost.log.offset_index import RELATIVE_MAX
from fencepost.log.producers import ProducerStates
from fencepost.log.replay import load_producers, settle_active
from fencepost.log.scanning import clear_behind, scan, write_again
from fencepost.log.segment import UNKNOWN, Segment
from fencepost.log.segment_cache import SegmentCache
from fencepost.log.segment_row import SegmentRow
from fencepost.wire.types import Uuid

log = logging.getLogger(__name__)

_OFFSET_MAX: Final = (1 << 63) - 1


@dataclass(slots=True)
class RecoveryReport:
    """What opening a log found and did."""

    was_unclean: bool = False
    end_offset: int = 0
    segments_scanned: int = 0
    bytes_cut: int = 0
    """Bytes behind the last sound batch, whole segments included."""
    lost_from_offset: int | None = None
    """Where records that had been durable begin to be missing, if the caller accepted that."""
    epochs_rebuilt: bool = False


@dataclass(slots=True)
class LoadedLog:
    """A log as it was found, after recovery."""

    row: SegmentRow
    start_offset: int
    end_offset: int
    recovery_point: int
    gaps_below: int
    """Below it segments may follow each other with a gap: of compaction, or of accepted loss."""
    epochs: LeaderEpochCache
    epochs_changed: bool
    producers: ProducerStates
    topic_id: Uuid | None
    topic_id_written: bool
    """Whether `partition.metadata` was written now, and is not durable yet."""
    is_new: bool
    report: RecoveryReport = field(default_factory=RecoveryReport)


def load_log(
    disk: Disk,
    cache: SegmentCache,
    directory: str,
    config: LogConfig,
    *,
    recovery_point: int,
    clean_shutdown: bool,
    start_offset: int,
    cleaned_offset: int,
    wall_ms: int,
    topic_id: Uuid | None,
    producer_id_expiration_ms: int,
    accept_loss: bool,
    is_gapless: bool,
) -> LoadedLog:
    """See `PartitionLog.open`."""
    is_new = not disk.is_dir(directory)
    if is_new:
        disk.mkdir(directory)
    known_id, id_written = _settle_topic_id(disk, directory, topic_id, recovery_point)
    loader = _Loader(disk, cache, directory, config, wall_ms)
    loader.cleaned_offset = cleaned_offset
    loader.is_gapless = is_gapless
    loader.gaps_below = _OFFSET_MAX if accept_loss else cleaned_offset
    loader.report.was_unclean = not clean_shutdown and not is_new
    loader.find_segments(start_offset)
    loader.recover(recovery_point, start_offset, clean_shutdown, accept_loss)

    def finish() -> LoadedLog:
        return _finish(
            loader,
            recovery_point=recovery_point,
            start_offset=start_offset,
            wall_ms=wall_ms,
            topic_id=known_id,
            id_written=id_written,
            is_new=is_new,
            producer_id_expiration_ms=producer_id_expiration_ms,
        )

    try:
        return finish()
    except CorruptFileError as error:
        # Damage in what was not read until now, since it had been closed in order.
        sound_end = loader.sound_end()
        if not accept_loss:
            raise DurableDataLostError(
                error.path, error.reason, error.position, sound_end=sound_end
            ) from error
        loader.recover(min(recovery_point, sound_end), start_offset, False, True)
        loader.report.lost_from_offset = sound_end
        return finish()


def _finish(
    loader: _Loader,
    *,
    recovery_point: int,
    start_offset: int,
    wall_ms: int,
    topic_id: Uuid | None,
    id_written: bool,
    is_new: bool,
    producer_id_expiration_ms: int,
) -> LoadedLog:
    """What is known of the segments that recovery has left: epochs, producers, names.

    CorruptFileError (the log), OSError.
    """
    disk, directory = loader.disk, loader.directory
    if loader.segments[-1].next_offset < start_offset and not loader.holds_anything:
        loader.start_over(start_offset)
    end_offset = loader.segments[-1].next_offset
    first_base = loader.segments[0].base_offset
    start = max(start_offset, first_base) if start_offset <= end_offset else first_base
    epochs_path = f"{directory}/{LEADER_EPOCH_FILE}"
    epochs = recover_epochs(
        disk, epochs_path, loader.segments, loader.scanned_epochs, start, end_offset
    )
    loader.report.epochs_rebuilt = epochs.was_rebuilt
    producers = ProducerStates()
    row = SegmentRow(disk, loader.cache, directory, loader.segments, loader.snapshots)
    row.remove_stray_snapshots(end_offset)
    _replay(disk, row, producers, end_offset, loader.scanned_from)
    producers.remove_expired(wall_ms, producer_id_expiration_ms)
    if loader.report.was_unclean:
        _sync_names(disk, directory, topic_id is not None)
    loader.report.end_offset = end_offset
    if not loader.report.was_unclean and end_offset == 0:
        # Untouched so far, perhaps for several lives: nothing of it has ever been synced.
        is_new = id_written = True
    is_new = is_new or loader.made_first_segment or id_written
    return LoadedLog(
        row,
        start,
        end_offset,
        end_offset if loader.is_durable else min(recovery_point, end_offset),
        loader.gaps_below,
        epochs.cache,
        epochs.differs_from_file,
        producers,
        topic_id,
        id_written and topic_id is not None and not loader.report.was_unclean,
        is_new,
        loader.report,
    )


def _replay(
    disk: Disk,
    row: SegmentRow,
    producers: ProducerStates,
    end_offset: int,
    scanned_from: int | None,
) -> None:
    """Producer state, and the transaction indexes of scanned segments, which become durable."""
    index_from = settle_active(row, end_offset) if scanned_from is None else scanned_from
    load_producers(disk, row, producers, end_offset, index_from)
    if scanned_from is None:
        return
    for segment in row.segments:
        if segment.base_offset >= scanned_from and not segment.is_active:
            for file in segment.write_txn_index():
                file.sync()
                file.close()


def _sync_names(disk: Disk, directory: str, has_topic_id: bool) -> None:
    """Make durable what the last process may have left in the cache only (KAFKA-10101)."""
    if has_topic_id:
        file = disk.open(f"{directory}/{PARTITION_METADATA_FILE}")
        try:
            write_again(file, 0, file.size())
            file.sync()
        finally:
            file.close()
    disk.sync_dir(directory)
    disk.sync_dir(directory.rpartition("/")[0] or "/")


def _settle_topic_id(
    disk: Disk, directory: str, topic_id: Uuid | None, recovery_point: int
) -> tuple[Uuid | None, bool]:
    """The directory's topic id, and whether it was written now because there was none.

    It becomes durable with the first flush, so that a thousand new partitions cost no sync.
    """
    try:
        known = read_partition_metadata(disk, directory)
    except CorruptFileError:
        # Torn by a crash before anything in the directory was durable; otherwise damaged.
        if recovery_point > 0 or topic_id is None:
            raise
        known = None
    if known is None and topic_id is not None:
        file = disk.open(f"{directory}/{PARTITION_METADATA_FILE}", create=True)
        try:
            file.truncate(0)
            file.write_at(encode_partition_metadata(topic_id), 0)
        finally:
            file.close()
        return topic_id, True
    if known is not None and topic_id is not None and known != topic_id:
        raise InconsistentTopicIdError(
            f"{directory} belongs to topic id {known}, not to {topic_id}"
        )
    return known, False


class _Loader:
    """The steps of opening one log; see the module docstring."""

    def __init__(
        self, disk: Disk, cache: SegmentCache, directory: str, config: LogConfig, wall_ms: int
    ) -> None:
        self.disk = disk
        self.cache = cache
        self.directory = directory
        self._config = config
        self._wall_ms = wall_ms
        self.segments: list[Segment] = []
        self.snapshots: set[int] = set()
        self.report = RecoveryReport()
        self.cleaned_offset = 0
        """Below this the log was compacted, and durable when it was."""
        self.gaps_below = 0
        self.is_gapless = False
        """Whether every batch begins where the one before it ends."""
        self.made_first_segment = False
        self.is_durable = False
        self.holds_anything = False
        """Whether any segment had a byte when it was found."""
        self.scanned_from: int | None = None
        """Base offset of the first segment that was read as a whole."""
        self.scanned_epochs: list[EpochEntry] = []
        self._durable_bytes: dict[int, int] = {}
        """Of each scanned segment, by base offset, the bytes below the recovery point."""
        self._ends_at: int | None = None
        """Where a batch has to end that has not been found yet; None once it has."""

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def find_segments(self, start_offset: int) -> None:
        """Settle unfinished business, and name the segments that are there."""
        found = settle(self.disk, self.directory, self._read_segment)
        self.snapshots = found.snapshots
        for base in found.base_offsets:
            size_bytes = self.disk.size(self._path(offset_file(base, LOG_SUFFIX)))
            self.segments.append(self._segment(base, size_bytes))
        for segment, following in zip(self.segments, self.segments[1:], strict=False):
            segment.next_offset = following.base_offset
        if not self.segments:
            self.segments.append(self._segment(start_offset, 0))
            self.segments[0].create(self._config.roll_bytes if self._config.preallocate else 0)
            self.made_first_segment = True

    def _segment(self, base_offset: int, size_bytes: int) -> Segment:
        return Segment(
            self.disk,
            self.cache,
            self.directory,
            base_offset,
            size_bytes=size_bytes,
            wall_ms=self._wall_ms,
        )

    def _read_segment(self, path: str, base_offset: int) -> Iterator[tuple[int, BatchHeader]]:
        return self._scan_file(path, self.disk.size(path), base_offset)

    def _scan_file(
        self, path: str, size_bytes: int, base_offset: int
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of its batches as far as they are sound and in order. OSError."""
        expected = base_offset
        for position, header in scan(self.disk, path, size_bytes, base_offset):
            if self.is_gapless and header.base_offset != expected:
                return
            expected = header.next_offset
            yield position, header

    def recover(
        self, recovery_point: int, start_offset: int, clean_shutdown: bool, accept_loss: bool
    ) -> None:
        """Check the segments, truncate at the first batch that is not sound, sync what is kept."""
        self.holds_anything = any(segment.size_bytes for segment in self.segments)
        self._check_empty(recovery_point, start_offset, accept_loss)
        if clean_shutdown and self._trust_active() and not self._has_grown(recovery_point):
            self._check_clean_end(recovery_point, accept_loss)
            self._check_start(self.segments[-1], start_offset, accept_loss)
            self.is_durable = True
            return
        self.report.was_unclean |= clean_shutdown  # the marker says so, the files do not
        if self.made_first_segment and recovery_point <= self.segments[0].base_offset:
            self.is_durable = True
            return
        # A segment that ends at the recovery point is read as well: its batches had been durable
        # when it was closed, the indexes that were written then need not be.
        at = 0
        while at + 1 < len(self.segments) and self.segments[at + 1].base_offset < recovery_point:
            at += 1
        scanned: list[Segment] = []
        self._ends_at = recovery_point
        while at < len(self.segments):
            segment = self.segments[at]
            whole = self._scan(segment, recovery_point)
            scanned.append(segment)
            following = self.segments[at + 1] if at + 1 < len(self.segments) else None
            if not whole or (following and self._is_hole(segment, following)):
                break
            at += 1
        end_offset = scanned[-1].next_offset
        if end_offset < recovery_point > start_offset:
            if not accept_loss:
                path = scanned[-1].path()
                raise DurableDataLostError(
                    path,
                    f"the log ends at offset {end_offset}, but had been durable up to"
                    f" {recovery_point}",
                    scanned[-1].size_bytes,
                    sound_end=end_offset,
                )
            self.report.lost_from_offset = end_offset
        if scanned[-1] is self.segments[-1] and not accept_loss:
            self._check_recovery_point(scanned[-1], recovery_point)
        self._check_start(scanned[-1], start_offset, accept_loss)
        self._cut(scanned)

    def _check_recovery_point(self, last: Segment, recovery_point: int) -> None:
        """A log that was durable up to an offset in its last segment has a batch that ends there.

        The offset of a batch is not in its CRC, and the last one has none behind it that would
        contradict it. Compaction leaves the last segment alone, but a truncation may make a
        compacted one the last, which then goes on behind a gap: one may begin there instead.
        """
        is_inside = last.base_offset < recovery_point < last.next_offset
        if is_inside and self._ends_at is not None:
            raise DurableDataLostError(
                last.path(),
                f"no batch ends at offset {recovery_point}, up to which the log had been durable",
            )

    def _is_hole(self, segment: Segment, following: Segment) -> bool:
        """Whether the end of a segment is missing, going by the name of the next one.

        Names follow without a gap, unless offsets leapt farther than an index can reach, or Kafka's
        compaction has left a segment without its last batches.
        """
        gap = following.base_offset != segment.next_offset
        if self.is_gapless:
            return gap
        if not gap or following.base_offset <= self.cleaned_offset:
            return False
        return following.base_offset - segment.base_offset <= RELATIVE_MAX + 1

    def _has_grown(self, recovery_point: int) -> bool:
        """Whether somebody has written since the marker of a clean shutdown was.

        Apache Kafka's controllers leave the marker alone: it is their brokers' logs that it is
        about. A metadata log that one of them has led on is read like any that crashed.
        """
        end_offset = self.segments[-1].next_offset
        return 0 < recovery_point < end_offset

    def _check_clean_end(self, recovery_point: int, accept_loss: bool) -> None:
        """A log that was closed cleanly ends at its recovery point, if that is known at all."""
        end_offset = self.segments[-1].next_offset
        if recovery_point and end_offset != recovery_point and not accept_loss:
            raise DurableDataLostError(
                self.segments[-1].path(),
                f"the log ends at offset {end_offset}, but was closed at {recovery_point}",
                sound_end=min(end_offset, recovery_point),
            )

    def _check_empty(self, recovery_point: int, start_offset: int, accept_loss: bool) -> None:
        """Closed segments without a byte: Kafka's compaction may leave one, nothing else does.

        What the last process may have left torn is read anyway, and cut.
        """
        for segment, following in pairwise(self.segments):
            end_offset = following.base_offset
            if segment.size_bytes or not start_offset < end_offset <= recovery_point:
                continue
            reason = f"is empty, although the next segment begins at {end_offset}"
            is_thinned = self._config.is_compacted or end_offset <= self.cleaned_offset
            is_leap = end_offset - segment.base_offset > RELATIVE_MAX + 1
            if not (is_thinned or is_leap or accept_loss):
                raise DurableDataLostError(segment.path(), reason, 0, sound_end=segment.base_offset)
            log.warning("%s %s", segment.path(), reason)

    def _check_start(self, last: Segment, start_offset: int, accept_loss: bool) -> None:
        """Refuse a start behind the end of what the files hold.

        No start is written down that is not durable, so either records are gone or the number is
        wrong, which no checksum would tell. Whoever accepts the loss gets the log as it is.
        """
        end_offset = last.next_offset
        if end_offset >= start_offset or not self.holds_anything:
            return
        reason = (
            f"the log ends at offset {end_offset}, but {LOG_START_OFFSET_FILE} has it start at"
            f" {start_offset}: one of them is wrong"
        )
        if not accept_loss:
            raise DurableDataLostError(last.path(), reason, last.size_bytes, sound_end=end_offset)
        log.warning("%s: %s; the log starts where its files do", self.directory, reason)
        if self.report.lost_from_offset is None:
            self.report.lost_from_offset = end_offset

    def sound_end(self) -> int:
        """Where the first batch of all begins that is not whole, not sound or does not follow."""
        for segment, following in zip_longest(self.segments, self.segments[1:]):
            end, next_offset = 0, segment.base_offset
            size_bytes = segment.size_bytes
            for position, header in self._scan_file(
                segment.path(), size_bytes, segment.base_offset
            ):
                end, next_offset = position + header.size_bytes, header.next_offset
            segment.next_offset = next_offset
            if end < size_bytes or (following is not None and self._is_hole(segment, following)):
                break
        return next_offset

    def start_over(self, start_offset: int) -> None:
        """Begin at the log's start with files that hold nothing, and whose end is not the log's."""
        while self.segments:
            self._remove_last()
        self.segments.append(self._segment(start_offset, 0))
        self.segments[0].create()
        self.made_first_segment = True

    def _remove_last(self) -> None:
        gone = self.segments.pop()
        self.report.bytes_cut += gone.size_bytes
        for suffix in reversed(SEGMENT_SUFFIXES):
            self.disk.unlink(gone.path(suffix))
        gone.close()
        self.disk.sync_dir(self.directory)

    def _trust_active(self) -> bool:
        """Find the end of the log that was closed cleanly; False if its tail says otherwise."""
        active = self.segments[-1]
        active.is_active = True
        active.next_offset = _OFFSET_MAX  # to be found out
        try:
            index = active.index
            start = index.positions[-1] if index.positions else 0
            end_offset, end = active.base_offset, start
            for header, _ in active.batches(start, active.size_bytes):
                end_offset = header.next_offset
                end += header.size_bytes
        except CorruptFileError:
            end = -1
        if end != active.size_bytes:
            active.is_active = False
            active.next_offset = active.base_offset
            return False
        active.next_offset = end_offset
        active.bytes_since_index = active.size_bytes - start
        return True

    def _scan(self, segment: Segment, recovery_point: int) -> bool:
        """Read every batch, index it, and find where soundness ends; whether that is the end."""
        self.report.segments_scanned += 1
        built = IndexBuilder(segment.base_offset, self._config.index_interval_bytes)
        end, next_offset = 0, segment.base_offset
        may_gap = self._config.is_compacted
        for position, header in self._scan_file(
            segment.path(), segment.size_bytes, segment.base_offset
        ):
            if not segment.has_room_for(header.last_offset):
                break
            built.add(position, header)
            self._note_epoch(header)
            if self._ends_at in (header.next_offset, header.base_offset if may_gap else None):
                self._ends_at = None
            end = position + header.size_bytes
            next_offset = header.next_offset
            if next_offset <= recovery_point:
                self._durable_bytes[segment.base_offset] = end
        whole = end == segment.size_bytes
        segment.install_indexes(built)
        segment.next_offset = next_offset
        self.report.bytes_cut += segment.size_bytes - end
        segment.size_bytes = end
        segment.first_timestamp_ms = UNKNOWN if end else -1
        segment.mark_sound()
        return whole

    def _note_epoch(self, header: BatchHeader) -> None:
        epoch = header.partition_leader_epoch
        if epoch >= 0 and (not self.scanned_epochs or self.scanned_epochs[-1].epoch != epoch):
            self.scanned_epochs.append(EpochEntry(epoch, header.base_offset))

    def _cut(self, scanned: list[Segment]) -> None:
        """Remove what lies behind the last scanned batch, and sync what was found."""
        last = scanned[-1]
        self.scanned_from = scanned[0].base_offset
        while self.segments[-1] is not last:
            self._remove_last()
        last.is_active = True
        for snapshot in [offset for offset in self.snapshots if offset > last.next_offset]:
            self.disk.unlink(self._path(offset_file(snapshot, SNAPSHOT_SUFFIX)))
            self.snapshots.discard(snapshot)
        for segment in scanned:
            file = segment.file
            if file.size() != segment.size_bytes:
                file.truncate(segment.size_bytes)
            write_again(file, self._durable_bytes.get(segment.base_offset, 0), segment.size_bytes)
            clear_behind(file, segment.size_bytes)
            if segment is not last:
                segment.time_index.maybe_append(*segment.largest_timestamp())
                for written in segment.write_indexes():
                    written.sync()
                    written.close()
            file.sync()  # also where nothing was cut now: the last process may have cut, unsynced
            segment.synced_bytes = segment.size_bytes
        if not last.size_bytes:
            # A log that nobody has written to is closed without writing over these.
            for suffix in SEGMENT_SUFFIXES:
                if suffix != LOG_SUFFIX and self.disk.exists(last.path(suffix)):
                    self.disk.unlink(last.path(suffix))
        self.is_durable = True
