"""Breadth first through a space, until it is covered, a law is broken, or the budget ends.

Every state is met first by a shortest path, so the path to a violation is a shortest one. Of a
state nothing is kept but its name, the number of the state that it was first reached from, and
which of that one's transitions led to it: the path is taken again to be told.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Protocol, TypeVar

from fencepost.sim.explore.laws import Violation
from fencepost.views.simulation import Exploration

PROGRESS_S = 5.0
"""Seconds between two reports of progress."""


Action = TypeVar("Action")
Made = TypeVar("Made", covariant=True)
State = TypeVar("State")


class Steps(Protocol):
    """What nodes do, each step taken once."""

    taken: int

    def __len__(self) -> int: ...


class Space(Protocol[Made, State]):
    """States, and what leads from one to the next: of a quorum or of a partition."""

    beyond: int

    @property
    def steps(self) -> Steps:
        """What nodes do."""
        ...

    def first(self) -> State:
        """Where all begins."""
        ...

    def pack(self, state: State) -> int:
        """A state as one integer."""
        ...

    def unpack(self, packed: int) -> State:
        """The state that an integer is."""
        ...

    def after(self, state: State) -> Iterator[tuple[Made, State]]:
        """Everything that may happen, and what it leads to. Violation, with its `action`."""
        ...


@dataclass
class Report(Generic[Action, State]):
    """What a search has seen. `covered`: every state within the bounds was visited, and is sound.

    `depth` is the length of the longest shortest path, `waiting` how many states were not looked at
    yet, `beyond` how many transitions led out of the bounds and were not taken.
    """

    states: int = 0
    transitions: int = 0
    depth: int = 0
    waiting: int = 0
    seconds: float = 0.0
    covered: bool = False
    violation: str | None = None
    path: list[tuple[Action, State | None]] = field(default_factory=list)
    node_states: int = 0
    steps_taken: int = 0
    beyond: int = 0

    @property
    def rate(self) -> float:
        """States per second."""
        return self.states / max(self.seconds, 1e-9)

    def view(self, bounds: dict[str, Any], story: list[str]) -> Exploration:
        """It as it is shown: the path to a violation is told by the lines of `story`."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        del told["path"]
        return Exploration(bounds=bounds, **told, states_per_second=round(self.rate), story=story)


class Search(Generic[Action, State]):
    """One search of a space; `run` once."""

    def __init__(self, space: Space[Action, State]) -> None:
        self.space = space
        self.report: Report[Action, State] = Report()
        self._seen: set[int] = set()
        self._from = array("I")
        self._by = array("H")
        self._next_s = PROGRESS_S

    def run(
        self,
        most_states: int | None = None,
        most_seconds: float | None = None,
        progress: Callable[[Report[Action, State]], None] | None = None,
    ) -> Report[Action, State]:
        """Search; `progress` is called every few seconds."""
        began = time.monotonic()
        report = self.report
        first = self.space.pack(self.space.first())
        self._add(first, 0, 0)
        level, number = [first], 0
        while level and report.violation is None:
            following: list[int] = []
            for at, packed in enumerate(level):
                report.violation = self._visit(packed, number, following)
                number += 1
                if report.violation is not None:
                    break
                if number % 1_000 == 0:
                    report.waiting = len(level) - at - 1 + len(following)
                    self._take_stock(began)
                    if progress is not None and report.seconds >= self._next_s:
                        self._next_s = report.seconds + PROGRESS_S
                        progress(report)
                    if self._is_spent(most_states, most_seconds):
                        return report
            else:
                report.depth += 1 if following else 0
                level = following
                continue
            break
        report.waiting = 0 if report.violation is None else len(self._from) - number
        report.covered = report.violation is None
        self._take_stock(began)
        return report

    def _is_spent(self, most_states: int | None, most_seconds: float | None) -> bool:
        report = self.report
        return (most_states is not None and report.states >= most_states) or (
            most_seconds is not None and report.seconds >= most_seconds
        )

    def _take_stock(self, began: float) -> None:
        report, space = self.report, self.space
        report.states = len(self._from)
        report.seconds = time.monotonic() - began
        report.node_states, report.steps_taken = len(space.steps), space.steps.taken
        report.beyond = space.beyond

    def _add(self, packed: int, reached_from: int, by: int) -> None:
        self._seen.add(packed)
        self._from.append(reached_from)
        self._by.append(by)

    def _visit(self, packed: int, number: int, following: list[int]) -> str | None:
        """Look at all that may happen in a state; what is broken, if anything is."""
        space, seen = self.space, self._seen
        by = -1
        try:
            for by, (_, state) in enumerate(space.after(space.unpack(packed))):
                self.report.transitions += 1
                name = space.pack(state)
                if name not in seen:
                    self._add(name, number, by)
                    following.append(name)
        except Violation as violation:
            self.report.path = [*self._path_to(number), (violation.action, None)]
            return str(violation)
        return None

    def _path_to(self, number: int) -> list[tuple[Action, State | None]]:
        choices: list[int] = []
        while number:
            choices.append(self._by[number])
            number = self._from[number]
        state = self.space.first()
        path: list[tuple[Action, State | None]] = []
        for choice in reversed(choices):
            for at, (action, next_state) in enumerate(self.space.after(state)):
                if at == choice:
                    path.append((action, next_state))
                    state = next_state
                    break
        return path
