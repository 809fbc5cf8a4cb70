"""S53: a follower that cannot read what is committed does not ask for it."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class AsksForNothing(QuorumRules):
    """Fetches what follows its log, whatever is damaged in it."""

    def fetch_position(
        self, log_end: tuple[int, int], damaged: tuple[int, int] | None
    ) -> tuple[int, int]:
        return log_end


ABLATION = Ablation(
    "a follower whose log is damaged holds all of it and never comes to its end",
    Rules(quorum=AsksForNothing()),
    scenarios=("S53",),
    is_found_by_search=False,
)
