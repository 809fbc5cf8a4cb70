"""The segments of one log in a row, and the changes to it that touch several files.

Theory of operation
-------------------
The row is never empty and its last segment is the active one. Rolling begins a new one; retiring
deletes from either end. Each of these is a sequence of steps on the disk between which the machine
may stop, so their order matters:

* rolling writes the indexes and the producer snapshot before the new segment file, and changes
  nothing in memory before all that has worked. What was written is synced by the next flush, before
  the recovery point may pass it (`unsynced`).
* replacing segments by a compacted one happens here in memory only; `cleaner.swap` has the files;
* retiring from the front goes from the oldest up, from the end from the newest down, with the
  directory synced in between: names become durable in any order otherwise, and a hole could remain.

Deleted files are renamed to `.deleted` and unlinked later.

A producer snapshot belongs to the segment that begins at its offset and goes with it; one more
stands at the end of a log that was closed cleanly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from fencepost.log.disk import Disk, File
from fencepost.log.names import DELETED_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, offset_file
from fencepost.log.segment import Segment
from fencepost.log.segment_cache import SegmentCache


class SegmentRow:
    """See the module docstring."""

    __slots__ = (
        "_bases",
        "_cache",
        "_deleted",
        "_disk",
        "active",
        "directory",
        "names_changed",
        "segments",
        "snapshots",
        "unsynced",
    )

    def __init__(
        self,
        disk: Disk,
        cache: SegmentCache,
        directory: str,
        segments: list[Segment],
        snapshots: set[int],
    ) -> None:
        self._disk = disk
        self._cache = cache
        self.directory = directory
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self.active.is_active = True
        self.snapshots = snapshots
        """Offsets of the producer snapshots that are there."""
        self.unsynced: list[tuple[Segment | None, File]] = []
        """Open files that must be synced before the recovery point may pass them."""
        self.names_changed = 0
        """Counts changes to the directory, for the flush that syncs it."""
        self._deleted: list[tuple[str, int | None]] = []

    def __len__(self) -> int:
        return len(self.segments)

    @property
    def size_bytes(self) -> int:
        """Bytes of all segment files."""
        return sum(segment.size_bytes for segment in self.segments)

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment in which `offset` may lie, and those behind it."""
        return self.segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    @property
    def cache(self) -> SegmentCache:
        """What bounds the open files and loaded indexes of the segments."""
        return self._cache

    def count_below(self, offset: int) -> int:
        """How many segments hold nothing at or above `offset`; never the active one."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def share(self, cache: SegmentCache) -> None:
        """Have `cache` bound what the segments keep open from now on."""
        self._cache.deferred -= len(self.unsynced)
        cache.deferred += len(self.unsynced)
        self._cache = cache
        for segment in self.segments:
            segment.share(cache)

    def path(self, name: str) -> str:
        """Path of a file in the directory."""
        return f"{self.directory}/{name}"

    # ---- growing

    def roll(
        self, base_offset: int, producers: bytes, wall_ms: int, reserve_bytes: int = 0
    ) -> Segment:
        """Close the active segment and begin a new one; on OSError everything stays as it was.

        With `reserve_bytes`, room for so many bytes is reserved for each.
        """
        old = self.active
        opened: list[tuple[Segment | None, File]] = []
        new = Segment(self._disk, self._cache, self.directory, base_offset, wall_ms=wall_ms)
        try:
            opened.extend((old, file) for file in old.seal())
            opened.append((None, self.write_snapshot(base_offset, producers)))
            new.create(reserve_bytes)
            if reserve_bytes:
                old.give_back_room()
        except OSError:
            for _, file in opened:
                file.close()
            new.close()
            raise
        self._defer(opened)
        old.is_active = False
        self._add(new)
        return new

    def _defer(self, opened: list[tuple[Segment | None, File]]) -> None:
        self.unsynced.extend(opened)
        self._cache.deferred += len(opened)

    def _close_deferred(self, opened: list[tuple[Segment | None, File]]) -> None:
        """Close files that have been synced, or need not be any more."""
        for _, file in opened:
            file.close()
        self._cache.deferred -= len(opened)

    def settle_unsynced(self, kept: int) -> None:
        """If too many files wait for a flush, sync and close those behind the first `kept`.

        No flush may have been begun since they were written. OSError.
        """
        if not self._cache.defers_too_many:
            return
        written = self.unsynced[kept:]
        for _, file in written:
            file.sync()
        del self.unsynced[kept:]
        self._close_deferred(written)

    def start_over(self, base_offset: int) -> None:
        """Begin with an empty segment, all others being retired. OSError."""
        assert not self.segments
        created_ms = self.active.created_ms
        new = Segment(self._disk, self._cache, self.directory, base_offset, wall_ms=created_ms)
        new.create()
        self._add(new)

    def _add(self, new: Segment) -> None:
        new.is_active = True
        self.segments.append(new)
        self._bases.append(new.base_offset)
        self.active = new
        self.names_changed += 1

    def seal_active(self, end_offset: int, producers: bytes) -> None:
        """Write what belongs to a log that is closed cleanly; a flush must follow. OSError."""
        self._defer([(self.active, file) for file in self.active.seal()])
        self._defer([(None, self.write_snapshot(end_offset, producers))])
        self.names_changed += 1

    def write_snapshot(self, offset: int, producers: bytes) -> File:
        """Write a producer snapshot; the file is open and not synced yet. OSError."""
        file = self._disk.open(self.path(offset_file(offset, SNAPSHOT_SUFFIX)), create=True)
        try:
            file.truncate(0)
            file.write_at(producers, 0)
        except OSError:
            file.close()
            raise
        self.snapshots.add(offset)
        return file

    # ---- shrinking

    def retire_oldest(self, count: int) -> None:
        """Delete the first `count` segments, the oldest first. OSError."""
        assert count < len(self.segments)
        for left in range(count - 1, -1, -1):
            segment = self.segments.pop(0)
            self._bases.pop(0)
            self._retire(segment)
            if left:
                self._disk.sync_dir(self.directory)
            self.names_changed += 1
        first = self._bases[0]
        self.drop_snapshots(sorted(offset for offset in self.snapshots if offset < first))

    def retire_behind(self, offset: int) -> None:
        """Delete the segments that begin behind `offset`, the newest first. OSError."""
        while self.segments and self._bases[-1] > offset:
            segment = self.segments.pop()
            self._bases.pop()
            self._retire(segment)
            self._disk.sync_dir(self.directory)
        if self.segments and not self.segments[-1].is_active:
            self.active = self.segments[-1]
            self.active.become_active()

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Let `new` stand in for neighbouring closed segments; their files are not touched."""
        at = self.segments.index(old[0])
        assert self.segments[at : at + len(old)] == old
        assert self.active not in old
        for segment in old:
            self._let_go(segment)
        self.segments[at : at + len(old)] = [new]
        self._bases[at : at + len(old)] = [new.base_offset]

    def note_deleted(self, paths: Iterable[str]) -> None:
        """Files that have been renamed are to be unlinked some time later."""
        self._deleted.extend((path, None) for path in paths)

    def drop_snapshots(self, offsets: Iterable[int]) -> None:
        """Delete producer snapshots whose segments are no more. OSError."""
        for offset in offsets:
            if offset in self.snapshots:
                self._move_away(offset_file(offset, SNAPSHOT_SUFFIX))
                self.snapshots.discard(offset)

    def remove_snapshots_above(self, offset: int) -> None:
        """Producer snapshots behind the end of the log say what is not so any more. OSError."""
        self._remove_snapshots({snapshot for snapshot in self.snapshots if snapshot > offset})

    def remove_stray_snapshots(self, end_offset: int) -> None:
        """Keep only those of segments, and the newest that is not behind the log's end. OSError."""
        newest = max((at for at in self.snapshots if at <= end_offset), default=-1)
        self._remove_snapshots(self.snapshots - {newest, *self._bases})
        self.remove_snapshots_above(end_offset)

    def _remove_snapshots(self, offsets: set[int]) -> None:
        for offset in sorted(offsets):
            self._disk.unlink(self.path(offset_file(offset, SNAPSHOT_SUFFIX)))
            self.snapshots.discard(offset)

    def _retire(self, segment: Segment) -> None:
        """Rename the segment's files out of the way and let go of it."""
        self._let_go(segment)
        for suffix in SEGMENT_SUFFIXES:
            self._move_away(offset_file(segment.base_offset, suffix))

    def _let_go(self, segment: Segment) -> None:
        segment.is_retired = True
        segment.close()
        self._close_deferred([item for item in self.unsynced if item[0] is segment])
        self.unsynced = [item for item in self.unsynced if item[0] is not segment]

    def _move_away(self, name: str) -> None:
        path = self.path(name)
        if self._disk.exists(path):
            self._disk.rename(path, path + DELETED_SUFFIX)
            self._deleted.append((path + DELETED_SUFFIX, None))

    @property
    def has_deleted_files(self) -> bool:
        """Whether there is anything for `delete_old_files` to unlink, now or later."""
        return bool(self._deleted)

    def delete_old_files(self, now_ms: int, delay_ms: int) -> int:
        """Unlink files retired `delay_ms` ago or earlier; how many. OSError.

        The delay counts from the first call after the file was retired.
        """
        waiting: list[tuple[str, int | None]] = []
        due: list[str] = []
        for path, noticed_ms in self._deleted:
            since_ms = now_ms if noticed_ms is None else noticed_ms
            if now_ms - since_ms >= delay_ms:
                due.append(path)
            else:
                waiting.append((path, since_ms))
        for path in due:
            self._disk.unlink(path)
        self._deleted = waiting
        return len(due)

    def note_synced(self, marks: list[tuple[Segment, int]], files: list[File]) -> None:
        """A flush has made segments durable up to the given sizes, and synced these files."""
        for segment, size in marks:
            segment.synced_bytes = max(segment.synced_bytes, min(size, segment.size_bytes))
        if self.unsynced:
            done = {id(file) for file in files}
            self._close_deferred([item for item in self.unsynced if id(item[1]) in done])
            self.unsynced = [item for item in self.unsynced if id(item[1]) not in done]
        self._cache.settled([segment for segment, _ in marks])

    def close(self) -> None:
        """Let go of all files."""
        for segment in self.segments:
            segment.close()
        self._close_deferred(self.unsynced)
        self.unsynced.clear()
