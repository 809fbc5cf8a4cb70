"""A partition all of whose replicas crashed waits for a leader for ever (before KIP-966)."""

from __future__ import annotations

from fencepost.machines.controller.rules import ControllerRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class LastLeaderNeverLeads(ControllerRules):
    """See the module docstring."""

    def may_last_leader_lead(self) -> bool:
        return False


ABLATION = Ablation(
    "a power cut of all brokers leaves partitions without leaders",
    Rules(controller=LastLeaderNeverLeads()),
    scenarios=("S13",),
    is_found_by_search=False,
    in_brokers=True,
)
