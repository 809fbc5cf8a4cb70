"""S39: a follower says yes to pre-votes although its leader is alive."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumMachine
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class FollowersAlwaysHope(QuorumMachine):
    """Helps whoever asks."""

    def _may_hope(self) -> bool:
        return True


ABLATION = Ablation(
    "a node that alone has lost the leader gets itself elected",
    Rules(machine=FollowersAlwaysHope),
    scenarios=("S39",),
    is_found_by_search=False,
)
