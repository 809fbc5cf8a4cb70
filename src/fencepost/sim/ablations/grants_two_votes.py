"""The canary: a voter that forgets whom it has voted for.

It must be found at once. If it is not, it is the simulator that is broken.
"""

from __future__ import annotations

from typing import Any

from fencepost.machines.quorum import QuorumMachine, Role
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class GrantsTwoVotes(QuorumMachine):
    """Votes for whoever asks, as often as it is asked."""

    def _may_vote_for(self, candidate_id: int, directory_id: Any, log_is_enough: bool) -> bool:
        return self._state.leader_id < 0 and self.role is not Role.LEADER and log_is_enough


ABLATION = Ablation("a voter votes twice in one epoch", Rules(machine=GrantsTwoVotes))
