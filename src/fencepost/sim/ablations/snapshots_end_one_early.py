"""S43: a snapshot is named after the last offset in it, not after the one behind (KAFKA-14618)."""

from __future__ import annotations

from fencepost.log.snapshots import SnapshotId
from fencepost.machines.image import ClusterImage
from fencepost.runtime.metadata import snapshot_generation as snapshotting
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def _last_offset_in(image: ClusterImage) -> SnapshotId:
    return SnapshotId(image.offset, image.epoch)


ABLATION = Ablation(
    "a snapshot is taken for the log below its last record",
    Rules(patches=((snapshotting, "snapshot_id_of", _last_offset_in),)),
    scenarios=(),
)
