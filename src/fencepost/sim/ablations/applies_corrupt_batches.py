"""S53: what was found sound once is applied without another look at its checksum."""

from __future__ import annotations

from fencepost.log import segment
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def _believe(*_: object) -> bool:
    return True


ABLATION = Ablation(
    "a batch that is corrupted between its append and its commit is in its leader's image",
    Rules(patches=((segment, "check_crc", _believe),)),
    scenarios=("S53",),
    is_found_by_search=False,
)
