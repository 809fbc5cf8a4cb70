"""S53: a voter that finds its log damaged at a start cuts it, and votes by what is left."""

from __future__ import annotations

from fencepost.runtime.metadata.rules import MetadataRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class ForgetsTheAcknowledgedEnd(MetadataRules):
    """Others may have counted on more than this log; it is forgotten."""

    def keeps_acknowledged_end(self) -> bool:
        return False


ABLATION = Ablation(
    "what a voter had told others to hold, and has lost to damage, does not bind its vote",
    Rules(metadata=ForgetsTheAcknowledgedEnd()),
    scenarios=("S53", "S93"),
    is_found_by_search=False,
)
