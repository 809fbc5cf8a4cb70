"""S41: a restarted node keeps its log beside a snapshot that the log is not of."""

from __future__ import annotations

from fencepost.log.snapshots import opening
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def _always(*_: object) -> bool:
    return True


ABLATION = Ablation(
    "the log that a loaded snapshot was to replace is taken for what follows it",
    Rules(patches=((opening, "_is_in", _always),)),
    scenarios=("S41", "S43"),
    is_found_by_search=False,
)
