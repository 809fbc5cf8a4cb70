"""S46: votes are given by voters, to voters, as far as the own log says who that is (KIP-853)."""

from __future__ import annotations

from typing import Any

from fencepost.machines.quorum import QuorumMachine
from fencepost.machines.quorum.voters import ReplicaKey
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class VotesAmongKnownVoters(QuorumMachine):
    """Goes by a voter set that it may have of all nodes alone."""

    def _may_hope(self) -> bool:
        return self.is_voter and super()._may_hope()

    def _may_vote_for(self, candidate_id: int, directory_id: Any, log_is_enough: bool) -> bool:
        candidate = ReplicaKey(candidate_id, directory_id)
        known = self.is_voter and self.voter_set.contains(candidate)
        return known and super()._may_vote_for(candidate_id, directory_id, log_is_enough)


ABLATION = Ablation(
    "a voter that was not told of its own addition refuses the votes that are needed",
    Rules(machine=VotesAmongKnownVoters),
    scenarios=("S46",),
    is_found_by_search=False,
)
