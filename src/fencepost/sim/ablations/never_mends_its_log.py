"""S53: a follower that cannot read what is committed does not ask for it."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumMachine
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class AsksForNothing(QuorumMachine):
    """Fetches what follows its log, whatever is damaged in it."""

    @property
    def _fetch_end(self) -> tuple[int, int]:
        return self._log_end


ABLATION = Ablation(
    "a follower whose log is damaged holds all of it and never comes to its end",
    Rules(machine=AsksForNothing),
    scenarios=("S53",),
    is_found_by_search=False,
)
