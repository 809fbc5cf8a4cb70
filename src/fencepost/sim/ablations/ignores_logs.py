"""A voter votes for candidates whose logs are behind its own."""

from __future__ import annotations

from msgspec.structs import replace

from fencepost.machines.quorum.rules import QuorumRules, VoteFacts
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class IgnoresLogs(QuorumRules):
    """Takes every log for long enough."""

    def may_grant_vote(self, facts: VoteFacts) -> bool:
        return super().may_grant_vote(replace(facts, log_is_long_enough=True))


ABLATION = Ablation("a candidate without committed records is elected", Rules(quorum=IgnoresLogs()))
