"""A metadata log of lists: batches, snapshots, what is durable, and what is corrupt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fencepost.batch.crc import crc32c
from fencepost.batch.header import BatchHeader, iter_headers, read_header, stamp
from fencepost.log.epochs import LeaderEpochCache
from fencepost.log.snapshots import SnapshotId
from fencepost.machines.effects import Append, StoreSnapshot
from fencepost.machines.quorum import DraftBounds, FetchBounds


class CorruptBatch(Exception):
    """A batch's bytes do not match its checksum; the argument is its base offset."""


@dataclass(frozen=True)
class Entry:
    """One batch of a log."""

    base_offset: int
    next_offset: int
    epoch: int
    data: bytes


def _entry(header: BatchHeader, data: bytes) -> Entry:
    return Entry(header.base_offset, header.next_offset, header.partition_leader_epoch, data)


class Shelf:
    """The snapshots of one node: each is all batches below its end, and a checksum."""

    def __init__(self) -> None:
        self.files: dict[SnapshotId, bytes] = {}
        self.times_ms: dict[SnapshotId, int] = {}
        self.partial: tuple[SnapshotId, bytearray] | None = None

    def ids(self) -> list[SnapshotId]:
        return sorted(self.files)

    def latest(self) -> SnapshotId | None:
        return max(self.files, default=None)

    def earliest(self) -> SnapshotId | None:
        return min(self.files, default=None)

    def size_bytes(self, snapshot_id: SnapshotId) -> int | None:
        data = self.files.get(snapshot_id)
        return None if data is None else len(data)

    def timestamp_ms(self, snapshot_id: SnapshotId) -> int | None:
        return self.times_ms.get(snapshot_id)

    def put(self, snapshot_id: SnapshotId, entries: Sequence[Entry], time_ms: int = 0) -> None:
        data = b"".join(entry.data for entry in entries)
        self.files[snapshot_id] = data + crc32c(data).to_bytes(4, "big")
        self.times_ms[snapshot_id] = time_ms

    def is_sound(self, snapshot_id: SnapshotId) -> bool:
        """Whether a snapshot is as it was written."""
        return _has_its_checksum(self.files[snapshot_id])

    def store(self, work: StoreSnapshot) -> None:
        if work.position_bytes == 0:
            self.partial = (work.snapshot_id, bytearray())
        assert self.partial is not None and self.partial[0] == work.snapshot_id, "it was begun"
        assert len(self.partial[1]) == work.position_bytes, "pieces follow each other"
        self.partial[1].extend(work.data)

    def finish(self, snapshot_id: SnapshotId) -> str | None:
        """Put the partial file in place; or why not."""
        assert self.partial is not None and self.partial[0] == snapshot_id, "it was fetched"
        data, self.partial = bytes(self.partial[1]), None
        if not _has_its_checksum(data):
            return "its checksum is wrong"
        self.files[snapshot_id] = data
        self.times_ms[snapshot_id] = 0
        return None

    def entries(self, snapshot_id: SnapshotId) -> list[Entry]:
        """What the snapshot stands for."""
        data = self.files[snapshot_id][:-4]
        return [
            Entry(
                h.base_offset, h.next_offset, h.partition_leader_epoch, data[p : p + h.size_bytes]
            )
            for p, h in iter_headers(data)
        ]


def _has_its_checksum(data: bytes) -> bool:
    return len(data) >= 4 and crc32c(data[:-4]).to_bytes(4, "big") == data[-4:]


class ListLog:
    """A log view over a list of batches; `durable_offset` is what a crash cannot take."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.prefix: list[Entry] = []
        self.corrupt: set[int] = set()
        self.truncated_corrupt: list[Entry] = []
        self.epochs = LeaderEpochCache()
        self.durable_offset = 0
        self.start_offset = 0
        self.snapshots = Shelf()

    @property
    def end_offset(self) -> int:
        return self.entries[-1].next_offset if self.entries else self.start_offset

    @property
    def size_bytes(self) -> int:
        return sum(len(entry.data) for entry in self.entries)

    @property
    def all_entries(self) -> list[Entry]:
        """What the log would hold if no prefix had been dropped or loaded."""
        return self.prefix + self.entries

    def start_over(self, snapshot_id: SnapshotId) -> None:
        """Empty the log; what comes next stands behind the snapshot."""
        self.prefix = self.snapshots.entries(snapshot_id)
        self.entries = []
        self.corrupt = set()
        self.epochs.clear()
        self.start_offset = self.durable_offset = snapshot_id.end_offset
        self._forget_snapshots()

    def drop_prefix(self, start_offset: int) -> None:
        """Batches below go, and snapshots that end below."""
        assert self.start_offset < start_offset <= self.end_offset, "the log holds the offset"
        self.prefix += [e for e in self.entries if e.base_offset < start_offset]
        self.entries = [e for e in self.entries if e.base_offset >= start_offset]
        self.corrupt = {at for at in self.corrupt if at >= start_offset}
        self.epochs.truncate_from_start(start_offset)
        self.start_offset = start_offset
        self._forget_snapshots()

    def _forget_snapshots(self) -> None:
        for id_ in self.snapshots.ids():
            if id_.end_offset < self.start_offset:
                del self.snapshots.files[id_]

    def finish_installation(self) -> None:
        """What a crash has left half done: a snapshot is in place that the log is not of."""
        latest = self.snapshots.latest()
        if latest is None:
            return
        end = latest.end_offset
        if end > self.end_offset or (
            end > self.start_offset and self.epochs.epoch_at(end - 1) != latest.epoch
        ):
            self.start_over(latest)

    @property
    def recovery_point(self) -> int:
        return self.durable_offset

    def batch_start(self, offset: int) -> int:
        return next(e.base_offset for e in self.entries if offset < e.next_offset)

    def append(self, work: Append) -> None:
        for header, batch in work.batches:
            if work.as_leader:
                stamp(batch, 0, base_offset=self.end_offset, leader_epoch=work.leader_epoch)
                header = read_header(batch)
            assert header.base_offset == self.end_offset, "no gap and no overlap"
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            self.entries.append(_entry(header, bytes(batch)))

    def cut(self, end_offset: int) -> None:
        is_damaged = any(at >= end_offset for at in self.corrupt)
        while self.entries and self.entries[-1].next_offset > end_offset:
            gone = self.entries.pop()
            if is_damaged:
                self.truncated_corrupt.append(gone)
        assert self.end_offset == end_offset, "cut between batches"
        self.corrupt = {at for at in self.corrupt if at < end_offset}
        self.epochs.truncate_from_end(end_offset)
        self.durable_offset = min(self.durable_offset, end_offset)

    def read(self, bounds: FetchBounds | DraftBounds) -> bytes:
        """Whole batches within the bounds, at least one, as a broker reads them. CorruptBatch."""
        out = b""
        for entry in self.entries:
            if bounds.offset < entry.next_offset <= bounds.upper_bound_offset:
                if entry.base_offset in self.corrupt:
                    raise CorruptBatch(entry.base_offset)
                if out and len(out) + len(entry.data) > bounds.max_bytes:
                    break
                out += entry.data
        return out
