"""Opening a log: from files, some of them torn, to a row of sound segments.

Theory of operation
-------------------
After a clean shutdown the files are what they should be, and only the tail of the active segment is
looked at. After any other end, this holds: what lies below the recovery point was synced; what lies
above may be there, torn, or missing, file by file and name by name. So everything from the segment
with the recovery point on is read, and the log ends where the first batch is not whole, not sound
or does not follow. What was found and kept is synced before anybody is told of it, or a reader
could see records that the next power cut takes away (KAFKA-10101).

In order:

1. unfinished business of deletion and compaction: `.deleted`, `.cleaned` and `.tmp` files go,
   `.swap` files take the place of what they replace, indexes without a segment go;
2. segments are checked as above; what follows the end is deleted, from the newest down;
3. the leader-epoch file is read, cut to the log, completed from the batches that were scanned; if
   it is missing, unreadable, or contradicts the log, it is made anew from all batches;
4. producer state is that of the newest sound snapshot, and the batches behind it.

Batches below the recovery point that are not there or not sound are no crash but damage or loss.
Cutting the log there would throw acknowledged records away in silence, so it is refused with
DurableDataLostError unless the caller accepts the loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from fencepost.batch.errors import BatchError
from fencepost.batch.header import HEADER_BYTES, BatchHeader, check_crc, read_header
from fencepost.log.config import LogConfig
from fencepost.log.disk import Disk
from fencepost.log.epochs import EpochEntry, LeaderEpochCache, decode_epochs
from fencepost.log.errors import (
    CorruptFileError,
    DurableDataLostError,
    InconsistentTopicIdError,
)
from fencepost.log.meta import encode_partition_metadata, read_partition_metadata
from fencepost.log.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    PARTITION_METADATA_FILE,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    offset_file,
    parse_offset_file,
)
from fencepost.log.offset_index import OffsetIndex
from fencepost.log.producers import ProducerStates
from fencepost.log.replay import load_producers
from fencepost.log.segment import Segment, SegmentCache
from fencepost.log.segment_row import SegmentRow
from fencepost.log.time_index import NO_TIMESTAMP, TimeIndex, TimestampOffset
from fencepost.wire.types import Uuid

_SCAN_CHUNK_BYTES: Final = 1 << 20
_BATCH_BYTES_MAX: Final = (1 << 31) - 1
EPOCHS_CHECKED_MAX: Final = 512
"""Newest entries of the leader-epoch file that are compared with the log when it is opened."""


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
    epochs: LeaderEpochCache
    epochs_changed: bool
    producers: ProducerStates
    topic_id: Uuid | None
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
    now_ms: int,
    topic_id: Uuid | None,
    accept_loss: bool,
) -> LoadedLog:
    """See `PartitionLog.open`."""
    is_new = not disk.is_dir(directory)
    if is_new:
        disk.mkdir(directory)
    known_id = _settle_topic_id(disk, directory, topic_id, recovery_point)
    loader = _Loader(disk, cache, directory, config, now_ms)
    loader.report.was_unclean = not clean_shutdown and not is_new
    loader.find_segments(start_offset)
    loader.recover(0 if is_new else recovery_point, clean_shutdown, accept_loss)
    end_offset = loader.segments[-1].next_offset
    first_base = loader.segments[0].base_offset
    start = min(max(start_offset, first_base), end_offset)
    epochs, epochs_changed = loader.load_epochs(start, end_offset)
    producers = ProducerStates()
    row = SegmentRow(disk, cache, directory, loader.segments, loader.snapshots)
    load_producers(disk, row, producers, start, end_offset)
    producers.remove_expired(now_ms)
    loader.report.end_offset = end_offset
    is_new = is_new or loader.made_first_segment
    return LoadedLog(
        row,
        start,
        end_offset,
        end_offset if loader.is_durable else min(recovery_point, end_offset),
        epochs,
        epochs_changed,
        producers,
        known_id,
        is_new,
        loader.report,
    )


def _settle_topic_id(
    disk: Disk, directory: str, topic_id: Uuid | None, recovery_point: int
) -> Uuid | None:
    """The directory's topic id; written if it has none. It becomes durable with the first flush."""
    try:
        known = read_partition_metadata(disk, directory)
    except CorruptFileError:
        # Torn by a crash before anything in the directory was durable; otherwise damaged.
        if recovery_point > 0 or topic_id is None:
            raise
        known = None
    if known is None and topic_id is not None:
        data = encode_partition_metadata(topic_id)
        disk.write_atomic(f"{directory}/{PARTITION_METADATA_FILE}", data, sync_directory=False)
        return topic_id
    if known is not None and topic_id is not None and known != topic_id:
        raise InconsistentTopicIdError(
            f"{directory} belongs to topic id {known}, not to {topic_id}"
        )
    return known


class _Loader:
    """The steps of opening one log; see the module docstring."""

    def __init__(
        self, disk: Disk, cache: SegmentCache, directory: str, config: LogConfig, now_ms: int
    ) -> None:
        self._disk = disk
        self._cache = cache
        self._directory = directory
        self._config = config
        self._now_ms = now_ms
        self.segments: list[Segment] = []
        self.snapshots: set[int] = set()
        self.report = RecoveryReport()
        self.made_first_segment = False
        self.is_durable = False
        self._names_changed = False
        self._scanned_epochs: list[EpochEntry] = []

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    # ---- files

    def find_segments(self, start_offset: int) -> None:
        """Settle unfinished business, and name the segments that are there."""
        self._finish_swaps(self._remove_temporary())
        bases, others = set(), []
        for name in self._disk.list(self._directory):
            parsed = parse_offset_file(name)
            if parsed is None or parsed[2]:
                continue
            offset, suffix, _ = parsed
            if suffix == LOG_SUFFIX:
                bases.add(offset)
            elif suffix == SNAPSHOT_SUFFIX:
                self.snapshots.add(offset)
            elif suffix in SEGMENT_SUFFIXES:
                others.append((offset, name))
        for offset, name in others:
            if offset not in bases:
                self._disk.unlink(self._path(name))
        for base in sorted(bases):
            path = self._path(offset_file(base, LOG_SUFFIX))
            self.segments.append(self._segment(base, self._disk.size(path)))
        for segment, following in zip(self.segments, self.segments[1:], strict=False):
            segment.next_offset = following.base_offset
        if not self.segments:
            self.segments.append(self._segment(start_offset, 0))
            self.segments[0].create()
            self.made_first_segment = True

    def _segment(self, base_offset: int, size_bytes: int) -> Segment:
        return Segment(
            self._disk,
            self._cache,
            self._directory,
            base_offset,
            size_bytes=size_bytes,
            now_ms=self._now_ms,
        )

    def _remove_temporary(self) -> list[str]:
        """Remove what is unfinished; the `.swap` files that are to take effect."""
        swaps: list[tuple[int, str]] = []
        cleaned_from: int | None = None
        for name in self._disk.list(self._directory):
            parsed = parse_offset_file(name)
            stage = parsed[2] if parsed is not None else ""
            if stage == SWAP_SUFFIX and parsed is not None:
                swaps.append((parsed[0], name))
            elif stage in (DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX) or name in (
                LEADER_EPOCH_FILE + TEMPORARY_SUFFIX,
                PARTITION_METADATA_FILE + TEMPORARY_SUFFIX,
            ):
                if stage == CLEANED_SUFFIX and parsed is not None:
                    cleaned_from = min(parsed[0], cleaned_from or parsed[0])
                self._disk.unlink(self._path(name))
        kept = []
        for offset, name in swaps:
            # Behind an unfinished `.cleaned`, a `.swap` is part of the same unfinished work.
            if cleaned_from is not None and offset >= cleaned_from:
                self._disk.unlink(self._path(name))
            else:
                kept.append(name)
        return kept

    def _finish_swaps(self, names: list[str]) -> None:
        """Let compacted segments take the place of those they were made from."""
        if not names:
            return
        replaced: list[tuple[int, int]] = []
        for name in names:
            parsed = parse_offset_file(name)
            if parsed is not None and parsed[1] == LOG_SUFFIX:
                replaced.append((parsed[0], self._end_of_swap(self._path(name), parsed[0])))
        for name in self._disk.list(self._directory):
            parsed = parse_offset_file(name)
            if parsed is None or parsed[2] or parsed[1] not in SEGMENT_SUFFIXES:
                continue
            if any(first <= parsed[0] < end for first, end in replaced):
                self._disk.unlink(self._path(name))
        self._disk.sync_dir(self._directory)  # the old ones must be gone before the new are there
        for name in names:
            self._disk.rename(self._path(name), self._path(name.removesuffix(SWAP_SUFFIX)))
        self._disk.sync_dir(self._directory)

    def _end_of_swap(self, path: str, base_offset: int) -> int:
        end_offset = base_offset + 1
        for _, header in scan(self._disk, path, self._disk.size(path), base_offset):
            end_offset = header.next_offset
        return end_offset

    # ---- segments

    def recover(self, recovery_point: int, clean_shutdown: bool, accept_loss: bool) -> None:
        """Check the segments, cut at the first flaw, sync what is kept."""
        if clean_shutdown and self._trust_active():
            self.is_durable = True
            return
        if self.made_first_segment and recovery_point <= self.segments[0].base_offset:
            self.is_durable = True
            return
        at = 0
        while at + 1 < len(self.segments) and self.segments[at + 1].base_offset <= recovery_point:
            at += 1
        scanned: list[Segment] = []
        while at < len(self.segments):
            segment = self.segments[at]
            whole = self._scan(segment)
            scanned.append(segment)
            following = self.segments[at + 1] if at + 1 < len(self.segments) else None
            if not whole or (following and following.base_offset != segment.next_offset):
                break
            at += 1
        end_offset = scanned[-1].next_offset
        if end_offset < recovery_point:
            if not accept_loss:
                path = scanned[-1].path()
                raise DurableDataLostError(
                    path,
                    f"the log ends at offset {end_offset}, but had been durable up to"
                    f" {recovery_point}",
                    scanned[-1].size_bytes,
                )
            self.report.lost_from_offset = end_offset
        self._cut(scanned, end_offset > recovery_point or accept_loss)

    def _trust_active(self) -> bool:
        """Find the end of the log that was closed cleanly; False if its tail says otherwise."""
        active = self.segments[-1]
        active.is_active = True
        try:
            index = active.index
            start = index.positions[-1] if index.positions else 0
            end_offset, end = active.base_offset, start
            for header, _ in active.batches(start, active.size_bytes):
                end_offset = header.next_offset
                end += header.size_bytes
        except CorruptFileError:
            active.is_active = False
            return False
        if end != active.size_bytes:
            active.is_active = False
            return False
        active.next_offset = end_offset
        active.bytes_since_index = active.size_bytes - start
        return True

    def _scan(self, segment: Segment) -> bool:
        """Read every batch, index it, and find where soundness ends; whether that is the end."""
        self.report.segments_scanned += 1
        index, time_index, newest = OffsetIndex(), TimeIndex(), NO_TIMESTAMP
        since, end = 0, 0
        next_offset = segment.base_offset
        interval_bytes = self._config.index_interval_bytes
        for position, header in scan(
            self._disk, segment.path(), segment.size_bytes, segment.base_offset
        ):
            relative = header.last_offset - segment.base_offset
            if not segment.has_room_for(header.last_offset):
                break
            if header.max_timestamp > newest.timestamp_ms:
                newest = TimestampOffset(header.max_timestamp, relative)
            if since > interval_bytes:
                index.append(relative, position)
                time_index.maybe_append(*newest)
                since = 0
            self._note_epoch(header)
            since += header.size_bytes
            end = position + header.size_bytes
            next_offset = header.next_offset
        whole = end == segment.size_bytes
        segment.install_indexes(index, time_index, newest, since)
        segment.next_offset = next_offset
        self.report.bytes_cut += segment.size_bytes - end
        segment.size_bytes = end
        segment.first_timestamp_ms = -2 if end else -1
        segment.mark_sound()
        return whole

    def _note_epoch(self, header: BatchHeader) -> None:
        epoch = header.partition_leader_epoch
        if epoch >= 0 and (not self._scanned_epochs or self._scanned_epochs[-1].epoch != epoch):
            self._scanned_epochs.append(EpochEntry(epoch, header.base_offset))

    def _cut(self, scanned: list[Segment], has_news: bool) -> None:
        """Remove what lies behind the last scanned batch, and sync what was found."""
        last = scanned[-1]
        while self.segments[-1] is not last:
            gone = self.segments.pop()
            self.report.bytes_cut += gone.size_bytes
            for suffix in reversed(SEGMENT_SUFFIXES):
                self._disk.unlink(gone.path(suffix))
            gone.close()
            self._disk.sync_dir(self._directory)
        last.is_active = True
        for snapshot in [offset for offset in self.snapshots if offset > last.next_offset]:
            self._disk.unlink(self._path(offset_file(snapshot, SNAPSHOT_SUFFIX)))
            self.snapshots.discard(snapshot)
            has_news = True
        for segment in scanned:
            file = segment.file
            if file.size() != segment.size_bytes:
                file.truncate(segment.size_bytes)
                has_news = True
            if segment is not last:
                segment.time_index.maybe_append(*segment.largest_timestamp())
                for written in segment.write_indexes():
                    written.sync()
                    written.close()
            if has_news:
                file.sync()
            segment.synced_bytes = segment.size_bytes
        if has_news:
            self._disk.sync_dir(self._directory)
            self._disk.sync_dir(self._directory.rpartition("/")[0] or "/")
        self.is_durable = True

    # ---- epochs

    def load_epochs(self, start_offset: int, end_offset: int) -> tuple[LeaderEpochCache, bool]:
        """The leader epochs, and whether they differ from the file's."""
        path = self._path(LEADER_EPOCH_FILE)
        try:
            entries = decode_epochs(path, self._disk.read(path))
        except FileNotFoundError:
            entries = []
            rebuild = end_offset > start_offset
        except CorruptFileError:
            entries = []
            rebuild = True
        else:
            rebuild = False
        epochs = LeaderEpochCache(entries)
        epochs.truncate_from_end(end_offset)
        for epoch, offset in self._scanned_epochs:
            if epochs.epoch_at(offset) != epoch:
                epochs.assign(epoch, offset)
        epochs.truncate_from_start(start_offset)
        if rebuild or not self._agree(epochs, start_offset):
            epochs = LeaderEpochCache()
            for header in self._all_headers():
                epoch = header.partition_leader_epoch
                if epoch >= 0 and header.last_offset >= start_offset:
                    epochs.assign(epoch, max(header.base_offset, start_offset))
            self.report.epochs_rebuilt = True
        return epochs, list(epochs) != entries

    def _all_headers(self) -> Iterator[BatchHeader]:
        for segment in self.segments:
            for _, header in segment.headers(0, segment.size_bytes):
                yield header

    def _agree(self, epochs: LeaderEpochCache, start_offset: int) -> bool:
        """Whether the batches around where each epoch begins are of the epochs they should be."""
        for epoch, offset in list(epochs)[-EPOCHS_CHECKED_MAX:]:
            if not self._is_boundary(epoch, offset, start_offset):
                return False
        return True

    def _is_boundary(self, epoch: int, offset: int, start_offset: int) -> bool:
        before = offset - 1 if offset > start_offset else offset
        for segment in self.segments:
            if segment.next_offset <= before:
                continue
            start = segment.position_of(before)
            for _, header in segment.headers(start, segment.size_bytes):
                found = header.partition_leader_epoch
                if header.base_offset >= offset:
                    return found == epoch or (header.base_offset > offset and found > epoch)
                if header.last_offset >= offset:  # the log starts within this batch
                    return found == epoch and offset == start_offset
                if found >= epoch:
                    return False
        return True


def scan(
    disk: Disk, path: str, size_bytes: int, base_offset: int
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of the batches from the start that are whole, sound and in order.

    OSError.
    """
    file = disk.open(path)
    try:
        position, chunk, chunk_at = 0, b"", 0
        expected = base_offset
        while size_bytes - position >= HEADER_BYTES:
            at = position - chunk_at
            if at + HEADER_BYTES > len(chunk):
                chunk_at, at = position, 0
                chunk = file.read_at(min(_SCAN_CHUNK_BYTES, size_bytes - position), position)
            try:
                header = read_header(chunk, at)
            except BatchError:
                return
            size = header.size_bytes
            if header.base_offset < expected or size > size_bytes - position:
                return
            if at + size > len(chunk):
                chunk_at, at = position, 0
                chunk = file.read_at(
                    max(size, min(_SCAN_CHUNK_BYTES, size_bytes - position)), position
                )
            if not check_crc(chunk, at, header):
                return
            yield position, header
            position += size
            expected = header.next_offset
    finally:
        file.close()
