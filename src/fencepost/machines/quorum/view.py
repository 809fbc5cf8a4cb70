"""What a quorum machine must be able to see of its log and of the log's snapshots.

The machine looks and never touches: appends, truncations and the taking over of a snapshot are
effects. Reading batches or pieces of snapshots is the shell's business; the machine only says
between which offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from fencepost.log.epochs import EpochEndOffset
from fencepost.log.snapshots import SnapshotId


class EpochView(Protocol):
    """The leader epochs of the log; KIP-101."""

    def latest_epoch(self) -> int | None:
        """The epoch of the last batch, or None if the log is empty."""
        ...

    def epoch_at(self, offset: int) -> int | None:
        """The epoch of the record at `offset`, or None if the log does not know."""
        ...

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The largest epoch not above `epoch` and where it ends; (-1, -1) if that is unknown."""
        ...


class LogView(Protocol):
    """The metadata log, as far as the machine needs to see it."""

    @property
    def start_offset(self) -> int:
        """The first offset that the log holds."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset that the next record will get."""
        ...

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is known to be on stable storage."""
        ...

    @property
    def epochs(self) -> EpochView:
        """The leader epochs of the log."""
        ...

    @property
    def size_bytes(self) -> int:
        """The bytes of the log's batches, for retention."""
        ...

    @property
    def snapshots(self) -> SnapshotView:
        """The snapshots that stand for prefixes of the log."""
        ...

    def batch_start(self, offset: int) -> int:
        """Where the batch begins that holds the record at `offset`, which is in the log."""
        ...


class SnapshotView(Protocol):
    """The snapshots of the log that are whole and in place; partial files are none."""

    def ids(self) -> Sequence[SnapshotId]:
        """All of them, oldest first, the bootstrap snapshot (0-0) included."""
        ...

    def latest(self) -> SnapshotId | None:
        """The newest, or None."""
        ...

    def earliest(self) -> SnapshotId | None:
        """The oldest, or None."""
        ...

    def size_bytes(self, snapshot_id: SnapshotId) -> int | None:
        """How large it is, or None if there is no such snapshot (any more)."""
        ...

    def timestamp_ms(self, snapshot_id: SnapshotId) -> int | None:
        """The time of the last record that it stands for, as its header says; None as above."""
        ...


class NoSnapshots:
    """The view of a log that has no snapshots."""

    def ids(self) -> Sequence[SnapshotId]:
        """None."""
        return ()

    def latest(self) -> SnapshotId | None:
        """There is none."""
        return None

    def earliest(self) -> SnapshotId | None:
        """There is none."""
        return None

    def size_bytes(self, snapshot_id: SnapshotId) -> int | None:
        """There is none."""
        return None

    def timestamp_ms(self, snapshot_id: SnapshotId) -> int | None:
        """There is none."""
        return None


NO_SNAPSHOTS: Final = NoSnapshots()


class PlainLogView(Protocol):
    """A `LogView` but for the snapshots: what `PartitionLog` shows."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def recovery_point(self) -> int: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def epochs(self) -> EpochView: ...

    def batch_start(self, offset: int) -> int: ...


class SnapshottedLog:
    """A `LogView` made of a log and of what is known of its snapshots."""

    __slots__ = ("_log", "snapshots")

    def __init__(self, log: PlainLogView, snapshots: SnapshotView = NO_SNAPSHOTS) -> None:
        self._log = log
        self.snapshots = snapshots

    @property
    def start_offset(self) -> int:
        """The first offset that the log holds."""
        return self._log.start_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record will get."""
        return self._log.end_offset

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is known to be on stable storage."""
        return self._log.recovery_point

    @property
    def size_bytes(self) -> int:
        """The bytes of the log's batches."""
        return self._log.size_bytes

    @property
    def epochs(self) -> EpochView:
        """The leader epochs of the log."""
        return self._log.epochs

    def batch_start(self, offset: int) -> int:
        """Where the batch begins that holds the record at `offset`, which is in the log."""
        return self._log.batch_start(offset)
