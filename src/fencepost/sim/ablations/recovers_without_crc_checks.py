"""S52: what a restarted node finds at the end of its log counts, whatever its checksums say."""

from __future__ import annotations

from fencepost.log import scanning
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def _believe(*_: object) -> bool:
    return True


ABLATION = Ablation(
    "recovery takes a batch with a CRC mismatch for sound",
    Rules(patches=((scanning, "check_crc", _believe),)),
    scenarios=("S52",),
    is_found_by_search=False,
)
