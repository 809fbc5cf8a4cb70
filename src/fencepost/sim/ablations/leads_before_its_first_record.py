"""S44: a controller is active as soon as its node leads (KAFKA-12958, KAFKA-15345)."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumMachine, Role
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class LeadsBeforeItsFirstRecord(QuorumMachine):
    """Takes an election for all that it needs to know what was committed before it."""

    @property
    def is_active_leader(self) -> bool:
        return self.role is Role.LEADER


ABLATION = Ablation(
    "a controller decides on an image that lacks what earlier leaders committed",
    Rules(machine=LeadsBeforeItsFirstRecord),
    scenarios=("S44",),
)
