"""S41: a follower takes the first piece of a snapshot for all of it."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumMachine
from fencepost.machines.quorum.roles import FetchingSnapshot
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class InstallsEarly(QuorumMachine):
    """Has what it has of a snapshot installed."""

    def _is_whole(self, fetching: FetchingSnapshot) -> bool:
        return True


ABLATION = Ablation(
    "snapshots of more than one piece are never whole",
    Rules(machine=InstallsEarly),
    scenarios=("S41",),
    is_found_by_search=False,
)
