"""The canary: a voter that forgets whom it has voted for.

It must be found at once. If it is not, it is the simulator that is broken.
"""

from __future__ import annotations

from fencepost.machines.quorum.roles import Role
from fencepost.machines.quorum.rules import QuorumRules, VoteFacts
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class GrantsTwoVotes(QuorumRules):
    """Votes for whoever asks, as often as it is asked."""

    def may_grant_vote(self, facts: VoteFacts) -> bool:
        leads = facts.state.leader_id >= 0 or facts.role is Role.LEADER
        return not leads and facts.log_is_long_enough


ABLATION = Ablation("a voter votes twice in one epoch", Rules(quorum=GrantsTwoVotes()))
