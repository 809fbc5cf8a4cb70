"""S55: the quorum machine reckons its deadlines by the wall clock."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fencepost.machines.effects import Effect, SetTimer
from fencepost.machines.quorum import QuorumMachine
from fencepost.sim.ablations import Ablation
from fencepost.sim.rules import Rules


class ReckonsByTheWallClock(QuorumMachine):
    """Knows the time of day alone; its timers fire in time, and it finds that they have not."""

    def step(self, input_: Any, now_ms: int, wall_ms: int) -> list[Effect]:
        return [
            replace(effect, deadline_ms=effect.deadline_ms - wall_ms + now_ms)
            if isinstance(effect, SetTimer) and effect.deadline_ms is not None
            else effect
            for effect in super().step(input_, wall_ms, wall_ms)
        ]


ABLATION = Ablation(
    "a wall clock that is set back by an hour ends elections for an hour; forward, it deposes"
    " leaders",
    Rules(machine=ReckonsByTheWallClock),
    scenarios=("S55",),
    faults=("clocks", "kill"),
)
