"""S41: a snapshot is served, and put in place of the log, without a look at its checksums."""

from __future__ import annotations

from typing import Any

from fencepost.log.snapshots import SnapshotReader, store
from fencepost.machines.image import ClusterImage
from fencepost.runtime.metadata import snapshot_fetching as snapshot_keeper
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def _read_header_only(file: Any, path: str) -> Any:
    return SnapshotReader(file, path).header


def _load_header_only(file: Any, path: str) -> Any:
    return SnapshotReader(file, path).header, ClusterImage()


ABLATION = Ablation(
    "a bit flipped in one node's snapshot is in the next one's log",
    Rules(
        patches=(
            (store, "check_whole", _read_header_only),
            (snapshot_keeper, "load_snapshot", _load_header_only),
        )
    ),
    scenarios=("S41",),
    is_found_by_search=False,
)
