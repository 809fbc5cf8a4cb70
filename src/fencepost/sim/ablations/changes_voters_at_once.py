"""S48: a leader changes the voters while an earlier change may still be lost."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumMachine
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class ChangesVotersAtOnce(QuorumMachine):
    """Waits neither for a commit of its own epoch nor for the last change."""

    def _has_committed_in_epoch(self) -> bool:
        return True

    def _voters_are_committed(self) -> bool:
        return True


ABLATION = Ablation(
    "two changes of the voters overlap",
    Rules(machine=ChangesVotersAtOnce),
    scenarios=("S48",),
    is_found_by_search=False,
)
