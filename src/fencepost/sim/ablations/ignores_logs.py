"""A voter votes for candidates whose logs are behind its own."""

from __future__ import annotations

from typing import Any

from fencepost.machines.quorum import QuorumMachine
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class IgnoresLogs(QuorumMachine):
    """Takes every log for long enough."""

    def _may_vote_for(self, candidate_id: int, directory_id: Any, log_is_enough: bool) -> bool:
        return super()._may_vote_for(candidate_id, directory_id, True)


ABLATION = Ablation("a candidate without committed records is elected", Rules(machine=IgnoresLogs))
