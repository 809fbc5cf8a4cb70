"""Snapshots of the metadata log that a node takes over from a leader, and the log behind them.

Theory of operation
-------------------
`SnapshotKeeper` carries out what the quorum machine wants done with snapshots (KIP-630): pieces of
a leader's snapshot are collected, checked and put in place of the log; a prefix of the log is
dropped together with the snapshots that end in it.

A leader is not believed. Before the first piece is kept there must be room for as much as it says
there is, and as soon as the first batch is there, it must be one that a snapshot begins with. What
fails that, or cannot be written because the disk has filled up meanwhile, is given up: the log that
there is stays, the machine asks again after a pause, and the log of the node has one line about it.

When all pieces are there, a thread reads them from end to end, makes the image of them, compares it
with the one that there is and syncs the file (`MachinePorts.run_in_background`): a hundred thousand
partitions take long, and the node has others to answer. The machine leaves the log alone meanwhile.
Nobody sees the image before the file is in its place and the high watermark has reached its end.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fencepost.batch.errors import BatchError
from fencepost.log.disk import File
from fencepost.log.errors import LogError
from fencepost.log.partition_log import PartitionLog
from fencepost.log.snapshots import (
    FetchedSnapshot,
    SnapshotError,
    SnapshotHeader,
    SnapshotId,
    SnapshotStore,
)
from fencepost.machines.effects import DropPrefix, InstallSnapshot, StoreSnapshot
from fencepost.machines.image import ClusterImage, ImageDelta, ReplayError, diff
from fencepost.machines.probes import probe
from fencepost.machines.quorum.inputs import SnapshotInstalled, SnapshotRefused
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.machines.quorum.voters import VoterSet
from fencepost.runtime.metadata.rules import MetadataRules
from fencepost.runtime.metadata.snapshot_generation import history_of
from fencepost.runtime.ports import MachinePorts
from fencepost.wire.errors import WireError

log = logging.getLogger(__name__)

FREE_KEPT_BYTES: Final = 4 << 20
"""What a snapshot that is fetched must leave of the disk: a log that finds no room goes offline."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_INVALID: Final = (SnapshotError, ReplayError, WireError, BatchError, ValueError)
"""What is raised for a snapshot that is corrupt, or says what cannot be."""


class NoRoomError(Exception):
    """The disk has too little room for a snapshot."""


class Loaded(NamedTuple):
    """The image of a snapshot, and what is different from the one that there was, if known."""

    image: ClusterImage
    delta: ImageDelta | None = None


class _Loading:
    """A fetched snapshot that is looked at; `run` may be called on any thread.

    `before` is the image that its own will take the place of.
    """

    def __init__(
        self,
        fetched: FetchedSnapshot,
        static: VoterSet,
        before: ClusterImage,
        rules: MetadataRules,
    ) -> None:
        self.fetched = fetched
        self.header: SnapshotHeader
        self.image: ClusterImage
        self.delta: ImageDelta
        self.history: VoterHistory
        self._static = static
        self._before = before
        self._rules = rules

    def run(self) -> None:
        """Read everything that it says: nothing is left that could be wrong later.

        One that cannot be understood must not take the place of a log that can.
        """
        self.header = self.fetched.seal(self._check)

    def _check(self, file: File, path: str) -> SnapshotHeader:
        header, self.image = self._rules.load_snapshot(file, path)
        self.delta = diff(self._before, self.image)
        self.history = history_of(self._static, self.fetched.snapshot_id, header)
        return header


class SnapshotKeeper:
    """`machine_ports.SnapshotPort` over a log and its snapshots; see the module docstring.

    `feed` tells the machine, `on_disk_failed` that the disk refused when nobody waited for it.
    `image_now` is the image that everybody sees. `write_starts` makes it durable where the logs of
    the directory start. OSError.
    """

    def __init__(
        self,
        ports: MachinePorts,
        metadata_log: PartitionLog,
        store: SnapshotStore,
        static: VoterSet,
        feed: Callable[[Any], None],
        *,
        image_now: Callable[[], ClusterImage],
        on_disk_failed: Callable[[str], None],
        write_starts: Callable[[], None],
        rules: MetadataRules,
    ) -> None:
        self._ports = ports
        self._log = metadata_log
        self._store = store
        self._static = static
        self._feed = feed
        self._image_now = image_now
        self._on_disk_failed = on_disk_failed
        self._write_starts = write_starts
        self._rules = rules
        self._loaded: tuple[SnapshotId, Loaded] | None = None
        self._unlooked = False  # whether the beginning of what is fetched has not been looked at
        self._turned_down: SnapshotId | None = None  # what is fetched is not kept any more
        self._told: tuple[SnapshotId, type[Exception]] | None = None
        self._is_closed = False

    def close(self) -> None:
        """What is being looked at does not count any more."""
        self._is_closed = True

    # -- fetched from a leader -----------------------------------------------------------------

    def store(self, work: StoreSnapshot) -> None:
        """Write a piece of the snapshot that is being fetched, or turn the snapshot down. OSError.

        One that is turned down frees what it took.
        """
        if work.position_bytes == 0:
            self._turned_down = None
            self._unlooked = True
        try:
            if work.position_bytes == 0:
                self._check_room(work)
            self._write(work)
            if self._unlooked:
                whole_bytes = work.size_bytes
                self._unlooked = not self._store.fetched_begins_well(work.snapshot_id, whole_bytes)
        except (NoRoomError, SnapshotError) as error:
            self._store.forget_fetched()
            self._turned_down = work.snapshot_id
            self._refuse(work.snapshot_id, error)

    def _check_room(self, work: StoreSnapshot) -> None:
        """Whether so much fits on the disk. NoRoomError, OSError."""
        self._store.forget_fetched()  # another one's pieces take room, too
        free_bytes = self._store.disk.free_bytes(self._store.directory)
        if free_bytes - work.size_bytes < FREE_KEPT_BYTES:
            raise NoRoomError(
                f"it has {work.size_bytes} bytes, and of the {free_bytes} that are free in"
                f" {self._store.directory} {FREE_KEPT_BYTES} are kept"
            )

    def _write(self, work: StoreSnapshot) -> None:
        try:
            self._store.store_chunk(work.snapshot_id, work.position_bytes, work.data)
        except OSError as error:
            if error.errno in _FULL:
                raise NoRoomError(str(error)) from None
            raise

    def install(self, work: InstallSnapshot) -> None:
        """Have the fetched snapshot looked at, put in place of the log, and the machine told.

        OSError.
        """
        snapshot_id = work.snapshot_id
        if snapshot_id == self._turned_down:
            return  # the machine is being told
        try:
            fetched = self._store.take_fetched(snapshot_id)
        except SnapshotError as error:
            self._refuse(snapshot_id, error)
            return
        loading = _Loading(fetched, self._static, self._image_now(), self._rules)
        self._ports.run_in_background(
            loading.run, lambda error: self._looked_through(work, loading, error)
        )

    def _looked_through(
        self, work: InstallSnapshot, loading: _Loading, error: Exception | None
    ) -> None:
        """The thread is done: what it has read takes the log's place, or is thrown away."""
        if self._is_closed:
            return
        try:
            if isinstance(error, OSError):
                self._on_disk_failed(str(error))
            elif error is not None:
                self._store.discard(loading.fetched)
                self._refuse(work.snapshot_id, error)
            else:
                self._put_in_place(work, loading)
        except (LogError, OSError) as failure:
            self._on_disk_failed(str(failure))

    def _put_in_place(self, work: InstallSnapshot, loading: _Loading) -> None:
        """The log goes on from the snapshot; the machine hears so. LogError, OSError."""
        snapshot_id = work.snapshot_id
        self._store.place(loading.fetched, loading.header)
        self._loaded = snapshot_id, Loaded(loading.image, loading.delta)
        if not work.keeps_log:
            self._log.truncate_fully_and_start_at(snapshot_id.end_offset)
            self._store.drop_before(snapshot_id.end_offset)
        log.info("the metadata log continues from snapshot %s", snapshot_id)
        history = loading.history if loading.header.kraft_version else None
        self._feed(SnapshotInstalled(snapshot_id, history))

    def _refuse(self, snapshot_id: SnapshotId, error: Exception) -> None:
        """The machine hears that there is no such snapshot, and the log once."""
        probe("metadata.snapshot.refused")
        what = snapshot_id, type(error)
        level = logging.DEBUG if what == self._told else logging.ERROR
        self._told = what
        unforeseen = None if isinstance(error, (NoRoomError, *_INVALID)) else error
        log.log(
            level,
            "rejecting the fetched snapshot %s: %s",
            snapshot_id,
            error,
            exc_info=unforeseen,
        )
        self._feed(SnapshotRefused(snapshot_id, str(error)))

    # -- what is in place ----------------------------------------------------------------------

    def load_ahead(self) -> None:
        """Have the newest snapshot's image ready, before there is anybody who would have to wait.

        One that cannot be read is not reported here: whoever needs it meets it again.
        """
        latest = self._store.latest()
        if latest is not None and latest.end_offset > 0:
            try:
                self._loaded = latest, self.take_loaded(latest)
            except (*_INVALID, OSError):
                self._loaded = None

    def take_loaded(self, snapshot_id: SnapshotId) -> Loaded:
        """The image of a snapshot that is in place. It is kept ready for one call only.

        Raises SnapshotError, ReplayError, WireError, BatchError, OSError.
        """
        loaded, self._loaded = self._loaded, None
        if loaded is not None and loaded[0] == snapshot_id:
            return loaded[1]
        file = self._store.open(snapshot_id)
        try:
            path = self._store.path(snapshot_id)
            return Loaded(self._rules.load_snapshot(file, path)[1])
        finally:
            file.close()

    def drop_prefix(self, work: DropPrefix) -> None:
        """Let the log start there; files that hold nothing else go. OSError."""
        self._log.advance_start_offset(work.start_offset)
        self._write_starts()  # or a crash would bring back what the epochs no longer tell of
        dropped = self._store.drop_before(work.start_offset)
        self._log.delete_old_files(self._ports.now_ms())
        probe("metadata.prefix.dropped")
        log.info(
            "the metadata log starts at offset %d; deleted %d snapshot(s)",
            work.start_offset,
            len(dropped),
        )
