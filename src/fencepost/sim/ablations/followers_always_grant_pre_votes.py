"""S39: a follower says yes to pre-votes although its leader is alive."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules, VoteFacts
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class GrantsEveryPreVote(QuorumRules):
    """Helps whoever asks."""

    def may_grant_pre_vote(self, facts: VoteFacts) -> bool:
        return facts.log_is_long_enough


ABLATION = Ablation(
    "a node that alone has lost the leader gets itself elected",
    Rules(quorum=GrantsEveryPreVote()),
    scenarios=("S39",),
    is_found_by_search=False,
)
