"""S41: a leader hands out its snapshot without a look at its checksums."""

from __future__ import annotations

from typing import Any

from fencepost.log.snapshots import SnapshotReader, store
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def _read_header_only(file: Any, path: str) -> Any:
    return SnapshotReader(file, path).header


ABLATION = Ablation(
    "followers refuse a corrupt snapshot for ever, and their leader never learns why",
    Rules(patches=((store, "check_whole", _read_header_only),)),
    scenarios=("S41",),
    is_found_by_search=False,
)
