"""Snapshots of the metadata log that a running node takes of its image.

Theory of operation
-------------------
`SnapshotTaker` looks at every new image. When enough has been committed since the last snapshot, or
enough time has passed with anything committed at all, it has the image written: images never
change, so a thread can do that while the node goes on (`MachinePorts.run_in_background`). The file
gets its name on the node's own thread, and only if it is still of use; then the machine gets an
input, and decides what the log may forget. A snapshot that cannot be written is no reason to stop:
the log has everything that it would have had.

A snapshot's header has the voters as of its end (KIP-853).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

from msgspec import Struct

from fencepost.log.errors import describe
from fencepost.log.snapshots import (
    SnapshotHeader,
    SnapshotId,
    SnapshotStore,
    SnapshotWriter,
)
from fencepost.machines.image import ClusterImage
from fencepost.machines.image.records import image_values
from fencepost.machines.probes import probe
from fencepost.machines.quorum.inputs import SnapshotTaken
from fencepost.machines.quorum.voter_history import VoterHistory
from fencepost.machines.quorum.voters import VoterSet
from fencepost.runtime.ports import ArmedTimer, MachinePorts

log = logging.getLogger(__name__)


class SnapshotRules(Struct, frozen=True):
    """When a snapshot is taken (`metadata.log.max.record.bytes.between.snapshots`,
    `metadata.log.max.snapshot.interval.ms`; 0 ms: never for the time that has passed).
    """

    max_bytes: int = 20 << 20
    interval_ms: int = 3_600_000


class SnapshotTaker:
    """Takes snapshots of the image when it is time; see the module docstring."""

    def __init__(
        self,
        ports: MachinePorts,
        store: SnapshotStore,
        rules: SnapshotRules,
        on_taken: Callable[[SnapshotTaken], None],
        snapshot_id_of: Callable[[ClusterImage], SnapshotId],
    ) -> None:
        self._ports = ports
        self._store = store
        self._rules = rules
        self._on_taken = on_taken
        self._snapshot_id_of = snapshot_id_of
        self._bytes = 0
        self._latest: tuple[ClusterImage, SnapshotHeader] | None = None
        self._timer: ArmedTimer | None = None
        self._is_due = False
        self._is_writing = False
        self._is_closed = False

    def note(self, image: ClusterImage, header: SnapshotHeader, log_bytes: int) -> None:
        """This is committed now; `log_bytes` of it are new. Takes a snapshot if it is time.

        `header` is what a snapshot of this image has to say besides its records.
        """
        self._latest = image, header
        self._bytes += log_bytes
        if self._bytes and self._timer is None and self._rules.interval_ms > 0:
            self._timer = self._ports.timers.after(self._rules.interval_ms, self._time_is_up)
        if self._bytes >= self._rules.max_bytes:
            self._is_due = True
        if self._is_due:
            self._take()

    def loaded(self) -> None:
        """The image comes from a snapshot: what was counted before is in it."""
        self._start_over()

    def take_soon(self) -> None:
        """Take one as soon as it can be, whatever is new."""
        self._is_due = True
        self._take()

    def close(self) -> None:
        """Take no more; one that is being written does not count."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _time_is_up(self) -> None:
        self._timer = None
        self._is_due = True
        self._take()

    def _start_over(self) -> None:
        self._bytes = 0
        self._is_due = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take(self) -> None:
        """Begin to write, unless that cannot be now; a transaction that is open must end first."""
        if self._is_writing or self._is_closed or self._latest is None:
            return
        image, header = self._latest
        snapshot_id = self._snapshot_id_of(image)
        if image.pending is not None or snapshot_id.end_offset <= 0:
            return
        if self._is_there(snapshot_id):
            self._start_over()
            return
        self._start_over()
        try:
            writer = self._store.begin(snapshot_id, header, self._ports.wall_ms())
        except OSError as error:
            _report(snapshot_id, error)
            return
        self._is_writing = True

        def write() -> None:
            writer.extend(image_values(image))
            writer.finish()

        self._ports.run_in_background(write, lambda error: self._written(writer, error))

    def _written(self, writer: SnapshotWriter, error: Exception | None) -> None:
        """The file is there, or could not be written: give it its name if it is still of use."""
        self._is_writing = False
        if self._is_closed:
            return
        try:
            if error is not None:
                raise error
            if self._is_there(writer.snapshot_id):
                probe("metadata.snapshot.overtaken")
                writer.abandon()
                return
            self._store.publish(writer)
        except Exception as failure:  # noqa: BLE001 - the log is as good without it
            _report(writer.snapshot_id, failure)
            with contextlib.suppress(OSError):
                writer.abandon()
            return
        log.info("wrote snapshot %s, %d bytes", writer.snapshot_id, writer.size_bytes)
        self._on_taken(SnapshotTaken(writer.snapshot_id))
        if self._is_due:
            self._take()

    def _is_there(self, snapshot_id: SnapshotId) -> bool:
        """Whether there is this snapshot, or a newer one, that can be read."""
        latest = self._store.latest()
        if latest is None or latest < snapshot_id:
            return False
        return latest > snapshot_id or not self._store.is_corrupt(latest)


def _report(snapshot_id: SnapshotId, error: Exception) -> None:
    """Say that there is none; the log has everything, so the node goes on and tries another."""
    probe("metadata.snapshot.failed")
    log.error("cannot write snapshot %s: %s", snapshot_id, describe(error))


def history_of(static: VoterSet, snapshot_id: SnapshotId, header: SnapshotHeader) -> VoterHistory:
    """The voters in a snapshot's header. ValueError for voters that cannot be."""
    history = VoterHistory(static)
    last_offset = snapshot_id.end_offset - 1
    if header.kraft_version > 0:
        history.note_kraft_version(last_offset, header.kraft_version)
    if header.voters is not None:
        history.note_voters(last_offset, VoterSet.from_record(header.voters))
    return history


def header_at(history: VoterHistory, last_offset: int, timestamp_ms: int) -> SnapshotHeader:
    """What a snapshot of everything up to `last_offset` has to say besides its records."""
    level = history.kraft_version_at(last_offset)
    voters = history.at(last_offset)
    return SnapshotHeader(
        max(timestamp_ms, 0), level, voters.to_record() if level > 0 and voters.voters else None
    )
