"""S43: a snapshot is named after the last offset in it, not after the one behind (KAFKA-14618)."""

from __future__ import annotations

from fencepost.log.snapshots import SnapshotId
from fencepost.machines.image import ClusterImage
from fencepost.runtime.metadata.rules import MetadataRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class SnapshotsEndOneEarly(MetadataRules):
    """Names a snapshot after the last offset in it."""

    def snapshot_id_of(self, image: ClusterImage) -> SnapshotId:
        return SnapshotId(image.offset, image.epoch)


ABLATION = Ablation(
    "a snapshot is taken for the log below its last record",
    Rules(metadata=SnapshotsEndOneEarly()),
    scenarios=(),
)
