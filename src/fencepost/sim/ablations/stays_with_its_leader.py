"""S56: an observer goes on asking the leader it knows (KAFKA-19354)."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class StaysWithItsLeader(QuorumRules):
    """Asks an address where nobody is, for ever."""

    def asks_around(self, misses: int) -> bool:
        return False

    def leaves_silent_leader(self) -> bool:
        return False


ABLATION = Ablation(
    "an observer of a leader that is gone never finds another",
    Rules(quorum=StaysWithItsLeader()),
    scenarios=("S56",),
    is_found_by_search=False,
)
