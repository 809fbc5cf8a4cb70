"""A coordinator answers when its records are in the leader's log, and does not hold the answer."""

from __future__ import annotations

from fencepost.runtime.coordinator.rules import CoordinatorRules
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class AnswersCommitsAtOnce(CoordinatorRules):
    """What is appended is as good as committed."""

    __slots__ = ()

    def answers_up_to(self, appended: int, committed: int) -> int:
        """Whatever rests on what is appended."""
        return appended


ABLATION = Ablation(
    "a client hears that an offset is committed that the next coordinator does not know",
    Rules(coordinator=AnswersCommitsAtOnce()),
    scenarios=("S71", "S79", "S84"),
    in_brokers=True,
)
