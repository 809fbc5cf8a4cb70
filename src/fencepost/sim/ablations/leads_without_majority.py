"""S38: a leader that nobody fetches from goes on leading (KAFKA-15489)."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class LeadsWithoutMajority(QuorumRules):
    """Goes on, whoever fetches."""

    def majority_deadline_ms(self, heard_ms: int, timeout_ms: int, now_ms: int) -> int:
        return now_ms + timeout_ms


ABLATION = Ablation(
    "a leader without a majority does not resign",
    Rules(quorum=LeadsWithoutMajority()),
    scenarios=("S38",),
    is_found_by_search=False,
)
