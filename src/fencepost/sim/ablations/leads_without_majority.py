"""S38: a leader that nobody fetches from goes on leading (KAFKA-15489)."""

from __future__ import annotations

from fencepost.machines.effects import SetTimer
from fencepost.machines.quorum import QuorumMachine, inputs
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class LeadsWithoutMajority(QuorumMachine):
    """Looks at its watch and goes on."""

    def _step_check_quorum(self) -> None:
        self._emit(SetTimer(inputs.CHECK_QUORUM, self._now_ms + 3_000))


ABLATION = Ablation(
    "a leader without a majority does not resign",
    Rules(machine=LeadsWithoutMajority),
    scenarios=("S38",),
    is_found_by_search=False,
)
