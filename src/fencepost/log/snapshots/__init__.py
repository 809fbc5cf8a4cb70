"""Snapshots of a log: their names, their files, and what is in them (KIP-630)."""

from fencepost.log.snapshots.names import (
    BOOTSTRAP_ID,
    SnapshotFileKind,
    SnapshotId,
    checkpoint_file,
    deleted_file,
    parse_snapshot_file,
    partial_file,
)

__all__ = [
    "BOOTSTRAP_ID",
    "SnapshotFileKind",
    "SnapshotId",
    "checkpoint_file",
    "deleted_file",
    "parse_snapshot_file",
    "partial_file",
]
