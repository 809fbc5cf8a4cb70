"""S39: Raft without pre-votes: every time-out begins a new epoch (KIP-996)."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumMachine, inputs
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class StandsWithoutAsking(QuorumMachine):
    """Becomes a candidate at once."""

    def become_prospective(self) -> None:
        if self._others:
            self._set_timer(inputs.FETCH, None)
            self.become_candidate()
        else:
            super().become_prospective()


ABLATION = Ablation(
    "a node that was cut off comes back with a higher epoch and deposes the leader",
    Rules(machine=StandsWithoutAsking),
    scenarios=("S39",),
    is_found_by_search=False,
)
