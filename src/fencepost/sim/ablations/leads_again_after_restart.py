"""S36: a restarted leader takes its epoch up where it was (KAFKA-10527)."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumMachine, Role
from fencepost.machines.quorum.roles import Nominee
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class LeadsAgainAfterRestart(QuorumMachine):
    """Goes by the leader that quorum-state names, also if that is itself."""

    def _take_up_role(self) -> None:
        if self._state.leader_id == self._node_id:
            self._body = Nominee(Role.CANDIDATE, granted={self._node_id})
            self.become_leader()
        else:
            super()._take_up_role()


ABLATION = Ablation(
    "a restarted leader leads on in the same epoch",
    Rules(machine=LeadsAgainAfterRestart),
    scenarios=("S36",),
)
