"""The rules of the metadata log by name: what the simulator can take away, one at a time.

Like `machines/quorum/rules.py`, for what drives the quorum machine over files: how a log is opened,
what is read from it, what its snapshots are called and how they are checked. Production uses
`RULES`; an ablation is a subclass that overrides some of these methods and nothing besides.
"""

from __future__ import annotations

from typing import Final

from fencepost.batch.header import BatchHeader, check_crc
from fencepost.log.partition_log import PartitionLog
from fencepost.log.snapshots import SnapshotHeader, SnapshotId, SnapshotStore
from fencepost.log.snapshots.opening import open_snapshots
from fencepost.log.snapshots.reader import Readable
from fencepost.machines.image import ClusterImage
from fencepost.runtime.metadata.replay import load_snapshot


class MetadataRules:
    """Production's rules; see the module docstring. Stateless: one instance serves all nodes."""

    __slots__ = ()

    def open_snapshots(self, partition_log: PartitionLog) -> SnapshotStore:
        """The snapshots that a starting node goes by, and the log made to fit the newest.

        Raises SnapshotMissingError, SnapshotError, OSError.
        """
        return open_snapshots(partition_log)

    def is_intact(self, view: memoryview, position: int, header: BatchHeader) -> bool:
        """Whether the batch at `position` of `view` may be sent to a follower: its CRC matches."""
        return check_crc(view, position, header)

    def snapshot_id_of(self, image: ClusterImage) -> SnapshotId:
        """What a snapshot of this image is called: its end is not in it (KAFKA-14618)."""
        return SnapshotId(image.offset + 1, image.epoch)

    def load_snapshot(self, file: Readable, path: str) -> tuple[SnapshotHeader, ClusterImage]:
        """What a snapshot says, before it takes the log's place: every CRC of it is looked at.

        Raises SnapshotError, ReplayError, WireError, BatchError, OSError.
        """
        return load_snapshot(file, path)


RULES: Final = MetadataRules()
"""What production nodes go by."""

RULE_NAMES: Final = tuple(name for name in vars(MetadataRules) if not name.startswith("_"))
"""The names of all rules, in the order of the class."""
