"""S38: a lone voter watches over a majority of others that it does not have (KAFKA-16144)."""

from __future__ import annotations

from fencepost.machines.quorum import QuorumMachine, inputs
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class LoneVoterLosesItself(QuorumMachine):
    """Resigns because nobody fetches from it."""

    def become_leader(self) -> None:
        super().become_leader()
        if not self._others:
            self._set_timer(inputs.CHECK_QUORUM, self._now_ms + 3_000)

    def _step_check_quorum(self) -> None:
        self.become_resigned()


ABLATION = Ablation(
    "a lone voter resigns again and again",
    Rules(machine=LoneVoterLosesItself),
    scenarios=("S38",),
    is_found_by_search=False,
)
