"""S53: a leader sends what its disk gives it, without a look at the checksums."""

from __future__ import annotations

from fencepost.runtime.metadata import host as metadata
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def _believe(*_: object) -> bool:
    return True


ABLATION = Ablation(
    "followers refuse a corrupt batch for ever, and their leader never learns why",
    Rules(patches=((metadata, "check_crc", _believe),)),
    scenarios=("S53",),
    is_found_by_search=False,
)
