"""S41: a snapshot is served, and put in place of the log, without a look at its checksums."""

from __future__ import annotations

from typing import Any

from fencepost.log.snapshots import SnapshotHeader, SnapshotReader, store
from fencepost.log.snapshots.reader import Readable
from fencepost.machines.image import ClusterImage
from fencepost.runtime.metadata.rules import MetadataRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def _read_header_only(file: Any, path: str) -> Any:
    return SnapshotReader(file, path).header


class AcceptsAnySnapshot(MetadataRules):
    """Reads no further than the header."""

    def load_snapshot(self, file: Readable, path: str) -> tuple[SnapshotHeader, ClusterImage]:
        return SnapshotReader(file, path).header, ClusterImage()


ABLATION = Ablation(
    "a bit flipped in one node's snapshot is in the next one's log",
    Rules(metadata=AcceptsAnySnapshot(), patches=((store, "check_whole", _read_header_only),)),
    scenarios=("S41",),
    is_found_by_search=False,
)
