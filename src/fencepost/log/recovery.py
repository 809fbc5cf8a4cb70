"""Recovery of a log: from files, some of them torn, to sound segments that follow each other.

Theory of operation
-------------------
After a clean shutdown the files are what they should be, and only the tail of the active segment is
looked at. After any other end, this holds: what lies below the recovery point was synced; what lies
above may be there, torn, or missing, file by file and name by name. So everything from the segment
with the recovery point on is read, and the log ends where the first batch is not whole, not sound
or does not follow. What was found and kept is synced before the log is used, or a consumer could
see records that the next power cut takes away (KAFKA-10101).

A sync alone would not do. If one has failed in the process before, the kernel counts its pages as
written, and the next sync of them succeeds without having written anything. So what lies above the
recovery point is written once more, the same bytes in the same place, and then synced. That costs
as much writing as there was in the last checkpoint interval.

A log that nothing was ever written to has nothing to lose: it costs no sync before its first
append, so that a thousand empty partitions are opened as fast after a crash as when they were new.

Batches below the recovery point that are not there or not sound are no crash but damage or loss.
Cutting the log there would throw acknowledged records away in silence, so it is refused with
DurableDataLostError unless the caller accepts the loss.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import pairwise, zip_longest
from typing import Final

from msgspec.structs import replace

from fencepost.batch.header import BatchHeader
from fencepost.log.config import LogConfig
from fencepost.log.disk import Buffer, Disk, sync_and_close
from fencepost.log.epochs import EpochEntry
from fencepost.log.errors import (
    CorruptFileError,
    DurableDataLostError,
)
from fencepost.log.index_builder import IndexBuilder
from fencepost.log.interrupted_cleanup import settle
from fencepost.log.load_params import LoadLogParams
from fencepost.log.loaded import OFFSET_MAX, RecoveryReport
from fencepost.log.names import (
    LOG_START_OFFSET_FILE,
    LOG_SUFFIX,
    PARTITION_METADATA_FILE,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    offset_file,
)
from fencepost.log.offset_index import RELATIVE_MAX
from fencepost.log.scanning import KeptAgain, clear_behind, scan
from fencepost.log.segment import UNKNOWN, Segment
from fencepost.log.segment_cache import SegmentCache

log = logging.getLogger(__name__)

_NAMES_AS_CREATED: Final = frozenset((offset_file(0, LOG_SUFFIX), PARTITION_METADATA_FILE))


class SegmentRecovery:
    """The steps for one log; see the module docstring."""

    def __init__(
        self,
        disk: Disk,
        cache: SegmentCache,
        directory: str,
        config: LogConfig,
        params: LoadLogParams,
    ) -> None:
        self.disk = disk
        self.cache = cache
        self.directory = directory
        self._config = config
        self._params = params
        self.segments: list[Segment] = []
        self.snapshots: set[int] = set()
        self.report = RecoveryReport()
        self.made_first_segment = False
        self.holds_anything = False
        """Whether any segment had a byte when it was found."""
        self._is_as_created = False
        """Whether there was no file but those that a new log has."""
        self.is_untouched = False
        """Whether nothing was ever written to it: then nothing of it needs to be durable.

        A log that was truncated to nothing is empty as well, but its records come back when power
        is lost before the truncation was synced. Its files tell them apart: a truncation to offset
        0 moves segments aside, and the moved ones stay until it was synced.
        """
        self.scanned_from: int | None = None
        """Base offset of the first segment that was read as a whole."""
        self.scanned_epochs: list[EpochEntry] = []
        self.producers_from: dict[int, int] = {}
        """Of each scanned segment, by base offset, where the first batch of a producer lies, or its
        end."""
        self._ends_at: int | None = None
        """Where a batch has to end that has not been found yet; None once it has."""

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def find_segments(self) -> None:
        """Settle unfinished business, and name the segments that are there."""
        if self.report.was_unclean:  # else it is not needed
            self._is_as_created = set(self.disk.list(self.directory)) <= _NAMES_AS_CREATED
        found = settle(self.disk, self.directory, self._read_segment)
        self.snapshots = found.snapshots
        for base in found.base_offsets:
            size_bytes = self.disk.size(self._path(offset_file(base, LOG_SUFFIX)))
            self.segments.append(self._segment(base, size_bytes))
        for segment, following in zip(self.segments, self.segments[1:], strict=False):
            segment.next_offset = following.base_offset
        if not self.segments:
            self.segments.append(self._segment(self._params.start_offset, 0))
            self.segments[0].create(self._config.roll_bytes if self._config.preallocate else 0)
            self.made_first_segment = True

    def _segment(self, base_offset: int, size_bytes: int) -> Segment:
        return Segment(
            self.disk,
            self.cache,
            self.directory,
            base_offset,
            size_bytes=size_bytes,
            wall_ms=self._params.wall_ms,
        )

    def _read_segment(self, path: str, base_offset: int) -> Iterator[tuple[int, BatchHeader]]:
        return self._scan_file(path, self.disk.size(path), base_offset)

    def _scan_file(
        self,
        path: str,
        size_bytes: int,
        base_offset: int,
        on_read: Callable[[Buffer, int], None] | None = None,
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of its batches as far as they are sound and in order. OSError.

        `on_read` as of `scan`.
        """
        expected, is_gapless = base_offset, self._params.is_gapless
        for position, header in scan(self.disk, path, size_bytes, base_offset, on_read):
            if is_gapless and header.base_offset != expected:
                return
            expected = header.next_offset
            yield position, header

    def recover(self) -> None:
        """Check the segments, truncate at the first batch that is not sound, sync what is kept.

        What is left is durable then, with whatever recovery point. DurableDataLostError, OSError.
        """
        params, recovery_point = self._params, self._params.recovery_point
        self.holds_anything = any(segment.size_bytes for segment in self.segments)
        ends_at = self.segments[-1].base_offset
        holds_nothing = not self.holds_anything and ends_at == recovery_point == 0
        self.is_untouched = holds_nothing and self._is_as_created
        self._check_empty()
        if params.clean_shutdown and self._trust_active() and not self._has_grown():
            self._check_clean_end()
            self._check_start(self.segments[-1])
            return
        self.report.was_unclean |= params.clean_shutdown  # the marker says so, the files do not
        if self.made_first_segment and recovery_point <= self.segments[0].base_offset:
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
            whole = self._scan(segment)
            scanned.append(segment)
            following = self.segments[at + 1] if at + 1 < len(self.segments) else None
            if not whole or (following and self._is_hole(segment, following)):
                break
            at += 1
        end_offset = scanned[-1].next_offset
        if end_offset < recovery_point > params.start_offset:
            if not params.accept_loss:
                path = scanned[-1].path()
                raise DurableDataLostError(
                    path,
                    f"the log ends at offset {end_offset}, but had been durable up to"
                    f" {recovery_point}",
                    scanned[-1].size_bytes,
                    sound_end=end_offset,
                )
            self.report.lost_from_offset = end_offset
        if scanned[-1] is self.segments[-1] and not params.accept_loss:
            self._check_recovery_point(scanned[-1])
        self._check_start(scanned[-1])
        self._cut(scanned)

    def close(self) -> None:
        """The log cannot be opened: let go of its files."""
        for segment in self.segments:
            segment.close()

    def recover_again(self, sound_end: int) -> None:
        """The same, as after a crash: a log that was trusted is sound up to `sound_end` only."""
        self._params = replace(
            self._params,
            recovery_point=min(self._params.recovery_point, sound_end),
            clean_shutdown=False,
        )
        self.recover()
        self.report.lost_from_offset = sound_end

    def _check_recovery_point(self, last: Segment) -> None:
        """A log that was durable up to an offset in its last segment has a batch that ends there.

        The offset of a batch is not in its CRC, and the last one has none behind it that would
        contradict it. Compaction leaves the last segment alone, but a truncation may make a
        compacted one the last, which then goes on behind a gap: one may begin there instead.
        """
        recovery_point = self._params.recovery_point
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
        if self._params.is_gapless:
            return gap
        if not gap or following.base_offset <= self._params.cleaned_offset:
            return False
        return following.base_offset - segment.base_offset <= RELATIVE_MAX + 1

    def _has_grown(self) -> bool:
        """Whether the log was written to after the marker of a clean shutdown.

        Apache Kafka's controllers leave the marker alone: it is their brokers' logs that it is
        about. A metadata log that one of them has led on is read like any that crashed.
        """
        return 0 < self._params.recovery_point < self.segments[-1].next_offset

    def _check_clean_end(self) -> None:
        """A log that was closed cleanly ends at its recovery point, if that is known at all."""
        recovery_point, end_offset = self._params.recovery_point, self.segments[-1].next_offset
        if recovery_point and end_offset != recovery_point and not self._params.accept_loss:
            raise DurableDataLostError(
                self.segments[-1].path(),
                f"the log ends at offset {end_offset}, but was closed at {recovery_point}",
                sound_end=min(end_offset, recovery_point),
            )

    def _check_empty(self) -> None:
        """Closed segments without a byte: Kafka's compaction may leave one, nothing else does.

        What the last process may have left torn is read anyway, and cut.
        """
        params = self._params
        for segment, following in pairwise(self.segments):
            end_offset = following.base_offset
            is_durable = params.start_offset < end_offset <= params.recovery_point
            if segment.size_bytes or not is_durable:
                continue
            reason = f"is empty, although the next segment begins at {end_offset}"
            is_thinned = self._config.is_compacted or end_offset <= params.cleaned_offset
            is_leap = end_offset - segment.base_offset > RELATIVE_MAX + 1
            if not (is_thinned or is_leap or params.accept_loss):
                raise DurableDataLostError(segment.path(), reason, 0, sound_end=segment.base_offset)
            log.warning("%s %s", segment.path(), reason)

    def _check_start(self, last: Segment) -> None:
        """Refuse a start behind the end of what the files hold.

        No start is written down that is not durable, so either records are gone or the number is
        wrong, which no checksum would tell. With `accept_loss` the log is opened as it is.
        """
        start_offset, end_offset = self._params.start_offset, last.next_offset
        if end_offset >= start_offset or not self.holds_anything:
            return
        reason = (
            f"the log ends at offset {end_offset}, but {LOG_START_OFFSET_FILE} has it start at"
            f" {start_offset}: one of them is wrong"
        )
        if not self._params.accept_loss:
            raise DurableDataLostError(last.path(), reason, last.size_bytes, sound_end=end_offset)
        log.warning("%s: %s; the log starts at its first segment", self.directory, reason)
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

    def start_over(self) -> None:
        """Begin at the log's start with files that hold nothing, and whose end is not the log's."""
        while self.segments:
            self._remove_last()
        self.segments.append(self._segment(self._params.start_offset, 0))
        self.segments[0].create()
        self.made_first_segment = True

    def _remove_last(self) -> None:
        gone = self.segments.pop()
        gone.close()
        self.report.bytes_cut += gone.size_bytes
        for suffix in reversed(SEGMENT_SUFFIXES):
            self.disk.unlink(gone.path(suffix))
        self.disk.sync_dir(self.directory)

    def _trust_active(self) -> bool:
        """Find the end of the log that was closed cleanly; False if its tail says otherwise."""
        active = self.segments[-1]
        active.is_active = True
        active.next_offset = OFFSET_MAX  # to be found out
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

    def _scan(self, segment: Segment) -> bool:
        """Read every batch, index it, and find where soundness ends; whether that is the end.

        What is kept above the recovery point is written again, and still to be synced.
        """
        self.report.segments_scanned += 1
        built = IndexBuilder(segment.base_offset, self._config.index_interval_bytes)
        end, next_offset = 0, segment.base_offset
        may_gap, recovery_point = self._config.is_compacted, self._params.recovery_point
        kept = KeptAgain(segment)
        self.producers_from.pop(segment.base_offset, None)
        segment.synced_bytes = 0  # its file stays open, or is synced, until `_cut` has synced it
        for position, header in self._scan_file(
            segment.path(), segment.size_bytes, segment.base_offset, kept.on_read
        ):
            if not segment.has_room_for(header.last_offset):
                break
            built.add(position, header)
            self._note_epoch(header)
            if header.producer_id >= 0:
                self.producers_from.setdefault(segment.base_offset, position)
            if self._ends_at in (header.next_offset, header.base_offset if may_gap else None):
                self._ends_at = None
            end = position + header.size_bytes
            next_offset = header.next_offset
            kept.keep(end, is_durable=next_offset <= recovery_point)
        kept.write()
        self.producers_from.setdefault(segment.base_offset, end)
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
            clear_behind(file, segment.size_bytes)
            if segment is not last:
                segment.time_index.maybe_append(*segment.largest_timestamp())
                sync_and_close(segment.write_indexes())
            if not self.is_untouched:  # else the first append's sync is soon enough
                file.sync()  # though nothing was cut now: the last process may have cut, unsynced
            segment.synced_bytes = segment.size_bytes
        if not last.size_bytes:
            # If nothing is appended, closing the log does not overwrite these.
            for suffix in SEGMENT_SUFFIXES:
                if suffix != LOG_SUFFIX and self.disk.exists(last.path(suffix)):
                    self.disk.unlink(last.path(suffix))
