"""The snapshots of one log: which there are, what is in them, and how they come and go.

Theory of operation
-------------------
A snapshot is visible when its file has its final name, and it gets that name only once its content
is durable: written here, it is synced by the writer (`SnapshotWriter`, then `publish`); fetched
from a leader, it is read from end to end and synced (`FetchedSnapshot`, then `place`). What a crash
leaves under a partial name counts for nothing and is removed at the next start.

Before a prefix of the log is dropped, or the log is emptied, a snapshot that covers it is durable,
name and all. So there is always one from which the log goes on; `open_snapshots` refuses a log for
which that is not true (KAFKA-14240).

One thread owns the store; a `SnapshotWriter` may work on another until it is published, and so may
a `FetchedSnapshot` until it is placed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from fencepost.log.disk import Buffer, Disk, File
from fencepost.log.snapshots.names import (
    SnapshotFileKind,
    SnapshotId,
    checkpoint_file,
    parse_snapshot_file,
    partial_file,
)
from fencepost.log.snapshots.reader import (
    SnapshotError,
    SnapshotHeader,
    TruncatedSnapshotError,
    begins_well,
    check_whole,
)
from fencepost.log.snapshots.writer import SnapshotWriter

SERVED_AT_ONCE: Final = 4
"""Snapshots that are kept open for followers. One that a follower reads piece by piece while others
read another one must not be looked through again for each piece."""


class _Known(Struct, frozen=True):
    """A snapshot in place."""

    header: SnapshotHeader
    size_bytes: int


class FetchedSnapshot:
    """All the pieces of a fetched snapshot, to be looked at; one thread at a time."""

    def __init__(self, snapshot_id: SnapshotId, file: File, path: str, size_bytes: int) -> None:
        self.snapshot_id = snapshot_id
        self.path = path
        self.size_bytes = size_bytes
        self._file = file

    def seal(self, check: Callable[[File, str], SnapshotHeader] = check_whole) -> SnapshotHeader:
        """Have `check(file, path)` find that the pieces are a snapshot, and make them durable.

        Raises SnapshotError, whatever else `check` raises, OSError. The file is closed after it.
        """
        try:
            header = check(self._file, self.path)
            self._file.sync()
        finally:
            self._file.close()
        return header


class SnapshotStore:
    """See the module docstring. Made by `open_snapshots`; what touches files raises OSError."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.disk = disk
        self.directory = directory
        self._known: dict[SnapshotId, _Known] = {}  # ascending
        self._fetched: tuple[SnapshotId, File, int] | None = None
        self._served: dict[SnapshotId, File] = {}
        self._corrupt: set[SnapshotId] = set()

    # -- what there is -----------------------------------------------------------------------

    def ids(self) -> Sequence[SnapshotId]:
        """All of them, oldest first."""
        return tuple(self._known)

    def latest(self) -> SnapshotId | None:
        """The newest, or None."""
        return next(reversed(self._known), None)

    def earliest(self) -> SnapshotId | None:
        """The oldest, or None."""
        return next(iter(self._known), None)

    def size_bytes(self, snapshot_id: SnapshotId) -> int | None:
        """How large its file is; None if there is no such snapshot."""
        known = self._known.get(snapshot_id)
        return None if known is None else known.size_bytes

    def timestamp_ms(self, snapshot_id: SnapshotId) -> int | None:
        """The time of the last log batch it stands for; None if there is no such snapshot."""
        known = self._known.get(snapshot_id)
        return None if known is None else known.header.last_contained_log_timestamp_ms

    def header(self, snapshot_id: SnapshotId) -> SnapshotHeader | None:
        """What it says besides its records; None if there is no such snapshot."""
        known = self._known.get(snapshot_id)
        return None if known is None else known.header

    def path(self, snapshot_id: SnapshotId) -> str:
        """Where its file is, once it is whole."""
        return f"{self.directory}/{checkpoint_file(snapshot_id)}"

    def open(self, snapshot_id: SnapshotId) -> File:
        """Its file, for reading; close it."""
        return self.disk.open(self.path(snapshot_id))

    def read(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> bytes | None:
        """Up to `max_bytes` of its file from `position`; None if there is no such snapshot.

        A read from position 0 has it checked from end to end first, because pieces do not end where
        batches do. Raises SnapshotError if it is corrupt; see `is_corrupt`.
        """
        if snapshot_id not in self._known:
            return None
        if position == 0 or snapshot_id not in self._served:
            self._close_served(snapshot_id)
            self._check_served(snapshot_id)
        return bytes(self._served[snapshot_id].read_at(max_bytes, position))

    def is_corrupt(self, snapshot_id: SnapshotId) -> bool:
        """Whether a reader has found it so; another one may be put in its place."""
        return snapshot_id in self._corrupt

    def _check_served(self, snapshot_id: SnapshotId) -> None:
        """Open it, look at all of it, and keep it open; the one that was opened first goes."""
        while len(self._served) >= SERVED_AT_ONCE:
            self._close_served(next(iter(self._served)))
        self._served[snapshot_id] = file = self.open(snapshot_id)
        try:
            check_whole(file, self.path(snapshot_id))
        except SnapshotError:
            self._corrupt.add(snapshot_id)
            self._close_served(snapshot_id)
            raise

    # -- coming ------------------------------------------------------------------------------

    def begin(
        self, snapshot_id: SnapshotId, header: SnapshotHeader, wall_ms: int
    ) -> SnapshotWriter:
        """Begin to write one; it becomes visible with `publish`."""
        return SnapshotWriter(self.disk, self.directory, snapshot_id, header, wall_ms)

    def publish(self, writer: SnapshotWriter) -> None:
        """Give a finished snapshot its name, durably; a corrupt one of that name is replaced."""
        self._close_served(writer.snapshot_id)
        self._name(writer.path, writer.snapshot_id)
        self._corrupt.discard(writer.snapshot_id)
        self.note(writer.snapshot_id, writer.header, writer.size_bytes)

    def store_chunk(self, snapshot_id: SnapshotId, position: int, data: Buffer) -> None:
        """Write a piece of a snapshot that is being fetched; position 0 starts again.

        Any other position is the size so far. Raises ValueError for a gap or an overlap.
        """
        if position == 0:
            self.forget_fetched()
            file = self.disk.open(self._partial_path(snapshot_id), create=True)
            file.truncate(0)
            self._fetched = snapshot_id, file, 0
        if self._fetched is None or (self._fetched[0], self._fetched[2]) != (snapshot_id, position):
            raise ValueError(f"no piece of snapshot {snapshot_id} goes to byte {position}")
        _, file, _ = self._fetched
        file.write_at(data, position)
        self._fetched = snapshot_id, file, position + len(data)

    def fetched_begins_well(self, snapshot_id: SnapshotId, size_bytes: int) -> bool:
        """Whether the pieces so far begin like a snapshot that has `size_bytes` in all.

        False: there is too little to tell. Raises DamagedSnapshotError for what cannot become one.
        """
        assert self._fetched is not None, "a piece has just been stored"
        return begins_well(self._fetched[1], self._partial_path(snapshot_id), size_bytes)

    def take_fetched(self, snapshot_id: SnapshotId) -> FetchedSnapshot:
        """The pieces, of which nothing is missing; `seal` them, then `place` or `discard` them.

        Raises TruncatedSnapshotError if nothing of it has been fetched.
        """
        path = self._partial_path(snapshot_id)
        if self._fetched is None or self._fetched[0] != snapshot_id:
            self.forget_fetched()
            raise TruncatedSnapshotError(path, "nothing of it has been fetched")
        _, file, size_bytes = self._fetched
        self._fetched = None
        return FetchedSnapshot(snapshot_id, file, path, size_bytes)

    def place(self, fetched: FetchedSnapshot, header: SnapshotHeader) -> None:
        """Give what was sealed its name, durably. Its header is what sealing it has found."""
        self._name(fetched.path, fetched.snapshot_id)
        self.note(fetched.snapshot_id, header, fetched.size_bytes)

    def discard(self, fetched: FetchedSnapshot) -> None:
        """Remove what turned out to be no snapshot."""
        self.disk.unlink(fetched.path)

    def note(self, snapshot_id: SnapshotId, header: SnapshotHeader, size_bytes: int) -> None:
        """Take up a snapshot whose file is in place."""
        self._known[snapshot_id] = _Known(header, size_bytes)
        self._known = {one: self._known[one] for one in sorted(self._known)}

    def forget_fetched(self) -> None:
        """Throw away what has been fetched of a snapshot."""
        if self._fetched is not None:
            snapshot_id, file, _ = self._fetched
            self._fetched = None
            file.close()
            self.disk.unlink(self._partial_path(snapshot_id))

    def _name(self, partial_path: str, snapshot_id: SnapshotId) -> None:
        self.disk.rename(partial_path, self.path(snapshot_id))
        self.disk.sync_dir(self.directory)

    # -- going -------------------------------------------------------------------------------

    def drop_before(self, start_offset: int) -> list[SnapshotId]:
        """Remove the snapshots that end below `start_offset`, where the log starts now; which.

        The newest one always stays.
        """
        dropped = [one for one in self.ids()[:-1] if one.end_offset < start_offset]
        for snapshot_id in dropped:
            del self._known[snapshot_id]
            self._corrupt.discard(snapshot_id)
            self._close_served(snapshot_id)
            self.disk.unlink(self.path(snapshot_id))
        return dropped

    def close(self) -> None:
        """Close what is open; what has been fetched of a snapshot stays for the next start."""
        for snapshot_id in tuple(self._served):
            self._close_served(snapshot_id)
        if self._fetched is not None:
            self._fetched[1].close()
            self._fetched = None

    def _close_served(self, snapshot_id: SnapshotId) -> None:
        file = self._served.pop(snapshot_id, None)
        if file is not None:
            file.close()

    def _partial_path(self, snapshot_id: SnapshotId) -> str:
        return f"{self.directory}/{partial_file(snapshot_id)}"


def list_snapshots(
    disk: Disk, directory: str
) -> dict[SnapshotFileKind, list[tuple[str, SnapshotId]]]:
    """Names and ids of the snapshots' files in a directory, by what they are. OSError."""
    found: dict[SnapshotFileKind, list[tuple[str, SnapshotId]]] = {
        kind: [] for kind in SnapshotFileKind
    }
    for name in disk.list(directory):
        parsed = parse_snapshot_file(name)
        if parsed is not None:
            snapshot_id, kind = parsed
            found[kind].append((name, snapshot_id))
    return found
