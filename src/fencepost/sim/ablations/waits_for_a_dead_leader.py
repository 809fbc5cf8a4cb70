"""S39: a refused connection to the leader is a lost message like any other."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumMachine
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class WaitsForADeadLeader(QuorumMachine):
    """Stands for election when the fetch timeout is over, and not before."""

    def _note_gone(self, peer: int) -> None:
        pass


ABLATION = Ablation(
    "nobody leads for a fetch timeout after the leader's process has ended",
    Rules(machine=WaitsForADeadLeader),
    scenarios=("S39",),
    is_found_by_search=False,
)
