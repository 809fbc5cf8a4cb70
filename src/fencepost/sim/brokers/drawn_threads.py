"""`DrawnThreads`: the threads of a simulated broker's coordinators, as quick as the seed has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fencepost.sim.surroundings import Process

WORK_US: Final = (0, 1_000, 50_000, 500_000, 5_000_000)
"""How long work may take; with 0, it is done in its turn among what happens now."""


class DrawnThreads:
    """As many threads as there is work, so that works begun in any order end in any other."""

    def __init__(self, node: Process) -> None:
        self._node = node
        self._lane = node.world.tape.lane(f"threads.{node.id}")

    def run(self, compute: Callable[[], None], done: Callable[[], None]) -> None:
        """Compute and be done after a time that is drawn, in this incarnation or never."""

        def act() -> None:
            compute()
            done()

        delay_us = WORK_US[self._lane.pick(len(WORK_US))]
        self._node.world.schedule_in(delay_us, "work", act, self._node)
