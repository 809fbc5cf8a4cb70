"""What has been worked out before: outcomes of steps, and pairs of logs that agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from fencepost.sim.explore.logs import Entry

Event = tuple[Any, ...]
"""What happens to a node: a word for it, and numbers."""


class Numbered(Protocol):
    """An outcome has the number that it was found with."""

    number: int


Cell = TypeVar("Cell")
Outcome = TypeVar("Outcome", bound=Numbered)


class KnownOutcomes(Generic[Cell, Outcome]):
    """The outcome of every state and event that have met.

    That states of one number behave alike is put to the test: with `doubts`, every n-th outcome
    that is looked up is worked out again, by `step` from whichever cell came to that state last.
    """

    def __init__(
        self,
        step: Callable[[Cell, Event], Outcome],
        cells: Sequence[Cell],
        latest: dict[int, Cell],
        doubts: int,
    ) -> None:
        self._step = step
        self._cells = cells
        self._latest = latest
        self._doubts = doubts
        self._outcomes: dict[tuple[int, Event], Outcome] = {}
        self._looked_up = 0
        self.doubted = 0
        """How many were worked out again."""

    def of(self, number: int, event: Event) -> Outcome:
        """What comes of an event in a state."""
        key = number, event
        outcome = self._outcomes.get(key)
        if outcome is None:
            outcome = self._step(self._cells[number], event)
            outcome.number = len(self._outcomes)
            self._outcomes[key] = outcome
        elif self._doubts:
            self._looked_up += 1
            if self._looked_up % self._doubts == 0:
                self._doubt(number, event, outcome)
        return outcome

    def _doubt(self, number: int, event: Event, known: Outcome) -> None:
        other = self._latest.get(number)
        if other is None:
            return
        self.doubted += 1
        again = self._step(other, event)
        again.number = known.number
        assert again == known, f"two outcomes of {event} in state {number}: {known}, {again}"


Log = tuple[int, ...]
"""A log by the numbers of its entries."""


class AgreeingLogs:
    """I03: where two logs have a batch of one offset and epoch, they are the same up to it."""

    def __init__(self, entry: Callable[[int], Entry]) -> None:
        self._entry = entry
        self._sound: set[tuple[Log, Log]] = set()

    def agree(self, one: Log, other: Log) -> bool:
        """Whether that holds for these."""
        pair = (one, other)
        if pair in self._sound:
            return True
        mine = [self._entry(number)[:3] for number in one]
        theirs = [self._entry(number)[:3] for number in other]
        common = [i for i, (a, b) in enumerate(zip(mine, theirs)) if a == b]
        last = max(common, default=-1) + 1
        if one[:last] != other[:last]:
            return False
        self._sound.add(pair)
        return True
