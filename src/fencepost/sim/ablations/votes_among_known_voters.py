"""S46: votes are given by voters, to voters, as far as the own log says who that is (KIP-853)."""

from __future__ import annotations

from fencepost.machines.quorum.rules import QuorumRules, VoteFacts
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class VotesAmongKnownVoters(QuorumRules):
    """Goes by a voter set that it may have of all nodes alone."""

    def may_grant_pre_vote(self, facts: VoteFacts) -> bool:
        return facts.is_voter and super().may_grant_pre_vote(facts)

    def may_grant_vote(self, facts: VoteFacts) -> bool:
        known = facts.is_voter and facts.candidate_is_voter
        return known and super().may_grant_vote(facts)


ABLATION = Ablation(
    "a voter that was not told of its own addition refuses the votes that are needed",
    Rules(quorum=VotesAmongKnownVoters()),
    scenarios=("S46",),
    is_found_by_search=False,
)
