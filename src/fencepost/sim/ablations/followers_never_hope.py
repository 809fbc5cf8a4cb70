"""S39: a follower says no to every pre-vote, also when its leader is silent: a livelock."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumMachine
from fencepost.machines.quorum.roles import Follower
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class FollowersNeverHope(QuorumMachine):
    """Stays with a leader that may be gone."""

    def _may_hope(self) -> bool:
        return not isinstance(self._body, Follower) and super()._may_hope()


ABLATION = Ablation(
    "followers of a silent leader refuse every pre-vote",
    Rules(machine=FollowersNeverHope),
    scenarios=("S39",),
    is_found_by_search=False,
)
