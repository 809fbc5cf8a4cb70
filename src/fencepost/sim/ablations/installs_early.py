"""S41: a follower takes the first piece of a snapshot for all of it."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class InstallsEarly(QuorumRules):
    """Has what it has of a snapshot installed."""

    def is_whole_snapshot(self, position_bytes: int, size_bytes: int) -> bool:
        return True


ABLATION = Ablation(
    "snapshots of more than one piece are never whole",
    Rules(quorum=InstallsEarly()),
    scenarios=("S41",),
    is_found_by_search=False,
)
