"""Snapshots of a log: their names, their files, and what is in them (KIP-630).

`opening.open_snapshots` gives those of a log that is being opened.
"""

from fencepost.log.snapshots.names import (
    BOOTSTRAP_FILE,
    BOOTSTRAP_ID,
    SnapshotFileKind,
    SnapshotId,
    checkpoint_file,
    deleted_file,
    parse_snapshot_file,
    partial_file,
)
from fencepost.log.snapshots.reader import (
    DamagedSnapshotError,
    SnapshotError,
    SnapshotHeader,
    SnapshotReader,
    TruncatedSnapshotError,
    check_whole,
)
from fencepost.log.snapshots.store import FetchedSnapshot, SnapshotStore
from fencepost.log.snapshots.writer import SnapshotWriter

__all__ = [
    "BOOTSTRAP_FILE",
    "BOOTSTRAP_ID",
    "DamagedSnapshotError",
    "FetchedSnapshot",
    "SnapshotError",
    "SnapshotFileKind",
    "SnapshotHeader",
    "SnapshotId",
    "SnapshotReader",
    "SnapshotStore",
    "SnapshotWriter",
    "TruncatedSnapshotError",
    "check_whole",
    "checkpoint_file",
    "deleted_file",
    "parse_snapshot_file",
    "partial_file",
]
