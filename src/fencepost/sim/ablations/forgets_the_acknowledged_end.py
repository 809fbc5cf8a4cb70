"""S53: a voter that finds its log damaged at a start cuts it, and votes by what is left."""

from __future__ import annotations

from fencepost.runtime.metadata import damage as metadata_damage
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


def _write_nothing(*_: object) -> None:
    """Others may have counted on more than this log; it is forgotten."""


ABLATION = Ablation(
    "what a voter had told others to hold, and has lost to damage, does not bind its vote",
    Rules(patches=((metadata_damage, "_write_acknowledged_end", _write_nothing),)),
    scenarios=("S53", "S93"),
    is_found_by_search=False,
)
