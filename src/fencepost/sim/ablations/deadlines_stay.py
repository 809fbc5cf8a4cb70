"""S55: deadlines stay where they are when the clock is set."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumMachine
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class DeadlinesStay(QuorumMachine):
    """Waits for the hour that the clock was set back by."""

    def _shift_times(self, by_ms: int) -> None:
        pass


ABLATION = Ablation(
    "a clock that is set back by an hour ends elections for an hour; forward, it deposes leaders",
    Rules(machine=DeadlinesStay),
    scenarios=("S55",),
    is_found_by_search=False,
)
