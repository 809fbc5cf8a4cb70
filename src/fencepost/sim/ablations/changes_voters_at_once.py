"""S48: a leader changes the voters while an earlier change may still be lost."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class ChangesVotersAtOnce(QuorumRules):
    """Waits neither for a commit of its own epoch nor for the last change."""

    def has_committed_in_epoch(self, is_active: bool) -> bool:
        return True

    def voters_are_committed(self, voters_offset: int | None, high_watermark: int) -> bool:
        return True


ABLATION = Ablation(
    "two changes of the voters overlap",
    Rules(quorum=ChangesVotersAtOnce()),
    scenarios=("S48",),
    is_found_by_search=False,
)
