"""S39: a follower says no to every pre-vote, also when its leader is silent: a livelock."""

from __future__ import annotations

from fencepost.machines.quorum.roles import Role
from fencepost.machines.quorum.rules import QuorumRules, VoteFacts
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class FollowersGrantNoPreVote(QuorumRules):
    """Stays with a leader that may be gone."""

    def may_grant_pre_vote(self, facts: VoteFacts) -> bool:
        return facts.role is not Role.FOLLOWER and super().may_grant_pre_vote(facts)


ABLATION = Ablation(
    "followers of a silent leader refuse every pre-vote",
    Rules(quorum=FollowersGrantNoPreVote()),
    scenarios=("S39",),
    is_found_by_search=False,
)
