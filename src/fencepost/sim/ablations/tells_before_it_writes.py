"""S37: votes and epochs are written at the end of a step, after the answers that tell of them."""

from __future__ import annotations

from fencepost.machines.effects import Effect, Persist, WriteState
from fencepost.machines.quorum import QuorumMachine
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class TellsBeforeItWrites(QuorumMachine):
    """Puts `WriteState` last."""

    def _emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        if self._state_unwritten:
            self._state_unwritten = False
            effects.append(Persist(WriteState(self._state)))
        return effects


ABLATION = Ablation(
    "a vote is told before it is on disk",
    Rules(machine=TellsBeforeItWrites),
    scenarios=("S37",),
)
