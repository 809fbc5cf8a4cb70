"""What a snapshot is called, and the names of its file while it is made, used and removed.

A snapshot holds what a log says below `end_offset`. It stands next to the log's segments as
`<end offset, 20 digits>-<epoch, 10 digits>.checkpoint`. `.checkpoint.part` is one that is not yet
whole, `.checkpoint.deleted` one that is about to go; Kafka puts a number of its own in front of the
former suffix, so that any `.part` of the right form counts.

KIP-630 gives the names.
"""

from __future__ import annotations

import enum
import re
from typing import Final, NamedTuple

CHECKPOINT_SUFFIX: Final = ".checkpoint"
PARTIAL_SUFFIX: Final = ".checkpoint.part"
DELETED_SUFFIX: Final = ".checkpoint.deleted"
BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
"""What `kafka-storage.sh format` of Kafka 3.3 to 3.9 leaves in the metadata log directory."""

_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})(.*)", re.DOTALL)
_PARTIAL: Final = r"(-[0-9]{1,20})?\.checkpoint\.part"
_OFFSET_MAX: Final = (1 << 63) - 1
_EPOCH_MAX: Final = (1 << 31) - 1


class SnapshotId(NamedTuple):
    """A snapshot of what the log says below `end_offset`; `epoch` is the last record's."""

    end_offset: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}"


BOOTSTRAP_ID: Final = SnapshotId(0, 0)
"""The snapshot that formatting leaves: it ends before the log's first record (KIP-853)."""


class SnapshotFileKind(enum.Enum):
    """What state a snapshot's file is in."""

    WHOLE = enum.auto()
    PARTIAL = enum.auto()
    DELETED = enum.auto()


def checkpoint_file(snapshot_id: SnapshotId) -> str:
    """Name of the file of a whole snapshot."""
    return f"{snapshot_id}{CHECKPOINT_SUFFIX}"


def partial_file(snapshot_id: SnapshotId, number: int | None = None) -> str:
    """Name of the file of a snapshot in the making; `number` sets it apart from others."""
    return f"{snapshot_id}{'' if number is None else f'-{number}'}{PARTIAL_SUFFIX}"


def deleted_file(snapshot_id: SnapshotId) -> str:
    """Name of the file of a snapshot that is about to be removed."""
    return f"{snapshot_id}{DELETED_SUFFIX}"


def parse_snapshot_file(name: str) -> tuple[SnapshotId, SnapshotFileKind] | None:
    """Whose file this is and in which state; None for any other file."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    snapshot_id = SnapshotId(int(match[1]), int(match[2]))
    if snapshot_id.end_offset > _OFFSET_MAX or snapshot_id.epoch > _EPOCH_MAX:
        return None
    suffix = match[3]
    if suffix == CHECKPOINT_SUFFIX:
        return snapshot_id, SnapshotFileKind.WHOLE
    if suffix == DELETED_SUFFIX:
        return snapshot_id, SnapshotFileKind.DELETED
    if re.fullmatch(_PARTIAL, suffix):
        return snapshot_id, SnapshotFileKind.PARTIAL
    return None
