"""What nodes do: every state of a node by number, every step taken once.

A node's step is a function of its state and of what happens to it, and of nothing else. So the real
machines take a step only the first time that this state meets this event; from then on the outcome
is looked up. A search of millions of transitions steps machines some ten thousand times. What this
rests on, that states of one number behave alike, is put to the test: with `doubts` every n-th
outcome that is looked up is worked out again, from whichever node came to that state last.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

from fencepost.sim.explore.flights import Messages, Numbers
from fencepost.sim.explore.known import Event, KnownOutcomes, Numbered
from fencepost.sim.explore.logs import Entry

MOST_STATES = 1 << 22
"""How many states of nodes there can be: what a packed state has room for."""


class Node(Protocol):
    """A node of a search: its disk, and what runs on it."""

    id: int

    def key(self) -> Any:
        """What its future depends on."""
        ...

    def own_events(self) -> Iterable[Event]:
        """What may happen in it by itself, but for power cuts."""
        ...


Cell = TypeVar("Cell", bound=Node)
View = TypeVar("View")
Outcome = TypeVar("Outcome", bound=Numbered)


class NodeSteps(ABC, Generic[Cell, View, Outcome]):
    """All states of nodes, and all outcomes. A model says how a node is stepped and looked at."""

    def __init__(self, doubts: int) -> None:
        self.doubts = doubts
        self.messages = Messages()
        self.entries = Numbers()
        self.views: list[View] = []
        """What the laws look at of a state, by its number."""
        self.taken = 0
        self._cells: list[Cell] = []
        self._numbers: dict[Any, int] = {}
        self._latest: dict[int, Cell] = {}
        self._known = KnownOutcomes(self._step, self._cells, self._latest, doubts)
        self._own: list[tuple[Event, ...] | None] = []

    def __len__(self) -> int:
        return len(self._cells)

    @abstractmethod
    def _step(self, before: Cell, event: Event) -> Outcome:
        """What comes of an event in a node, which stays as it is."""

    @abstractmethod
    def _view(self, cell: Cell) -> View:
        """What the laws look at of a node."""

    @property
    def doubted(self) -> int:
        """How many outcomes were worked out again."""
        return self._known.doubted

    def outcome(self, number: int, event: Event) -> Outcome:
        """What comes of an event in a state."""
        return self._known.of(number, event)

    def own_events(self, number: int) -> tuple[Event, ...]:
        """What may happen in a node by itself, but for power cuts and what is asked of it."""
        events = self._own[number]
        if events is None:
            events = self._own[number] = tuple(self._cells[number].own_events())
        return events

    def entry(self, number: int) -> Entry:
        """An entry of a log by number."""
        entry: Entry = self.entries.values[number]
        return entry

    def log_words(self, log: tuple[int, ...], durable: int) -> str:
        """A log for people: offsets and epochs of its batches, with a star if not durable."""
        entries = map(self.entry, log)
        return " ".join(
            f"{entry.base_offset}:e{entry.epoch}{'' if at < durable else '*'}"
            for at, entry in enumerate(entries)
        )

    def _number(self, cell: Cell) -> int:
        key = cell.id, cell.key()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._cells)
            if number >= MOST_STATES:
                raise OverflowError("more states of nodes than a packed state can name")
            self._cells.append(cell)
            self.views.append(self._view(cell))
            self._own.append(None)
        elif self.doubts:
            self._latest[number] = cell
        return number
