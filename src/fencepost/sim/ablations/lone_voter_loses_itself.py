"""S38: a lone voter watches over a majority of others that it does not have (KAFKA-16144)."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class LoneVoterLosesItself(QuorumRules):
    """Resigns because nobody fetches from it."""

    def needs_others(self, others: Sequence[int]) -> bool:
        return True

    def majority_deadline_ms(self, heard_ms: int, timeout_ms: int, now_ms: int) -> int:
        return now_ms


ABLATION = Ablation(
    "a lone voter resigns again and again",
    Rules(quorum=LoneVoterLosesItself()),
    scenarios=("S38",),
    is_found_by_search=False,
)
