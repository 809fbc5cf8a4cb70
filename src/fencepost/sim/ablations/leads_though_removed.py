"""S47: a leader goes on after its removal (KAFKA-17608)."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumMachine
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class LeadsThoughRemoved(QuorumMachine):
    """Never steps down."""

    def _must_step_down(self) -> bool:
        return False


ABLATION = Ablation(
    "a removed leader leads on",
    Rules(machine=LeadsThoughRemoved),
    scenarios=("S47",),
    is_found_by_search=False,
)
