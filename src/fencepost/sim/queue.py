"""What is still to happen: events in the order of world time, the order of equals being drawn."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any

from fencepost.sim.tape import Lane

_TIES = 1 << 16


class Event:
    """Something that is to happen to a node at a time, unless it is cancelled.

    `kind` says what it is ("timer", "flush", "request", ...), `about` is the thing itself, for
    scenarios and tests that pick events. An event with an `incarnation` happens in that one alone.
    """

    __slots__ = ("about", "act", "at_us", "incarnation", "is_cancelled", "kind", "node")

    def __init__(
        self,
        at_us: int,
        kind: str,
        act: Callable[[], None],
        node: Any,
        incarnation: int,
        about: Any,
    ) -> None:
        self.at_us = at_us
        self.kind = kind
        self.act = act
        self.node = node
        self.incarnation = incarnation
        self.about = about
        self.is_cancelled = False

    def cancel(self) -> None:
        """It does not happen."""
        self.is_cancelled = True

    @property
    def is_due(self) -> bool:
        """Whether it is still to happen, as far as it and its node's incarnation go."""
        if self.is_cancelled:
            return False
        return self.incarnation < 0 or (
            self.node.incarnation == self.incarnation and self.node.is_up
        )


class EventQueue:
    """A heap of events. Two at the same time come in an order that the tape draws."""

    def __init__(self, lane: Lane) -> None:
        self._heap: list[tuple[int, int, int, Event]] = []
        self._pushed = 0
        self._lane = lane

    def push(self, event: Event) -> Event:
        """Add it, at its time."""
        self._pushed += 1
        tie = self._lane.pick(_TIES)
        heapq.heappush(self._heap, (event.at_us, tie, self._pushed, event))
        return event

    def pop(self) -> Event:
        """Take the next event out; there must be one."""
        event = self.pop_until(None)
        assert event is not None, "there is an event"
        return event

    def pop_until(self, at_us: int | None) -> Event | None:
        """Take the next event out if it is due by that time, or at all; None if there is none."""
        heap = self._heap
        while heap and not heap[0][3].is_due:
            heapq.heappop(heap)
        if not heap or (at_us is not None and heap[0][0] > at_us):
            return None
        return heapq.heappop(heap)[3]

    def due(self) -> Iterator[Event]:
        """All that are still to happen, in their order."""
        return (entry[3] for entry in sorted(self._heap) if entry[3].is_due)

    def in_order(self) -> list[Event]:
        """All that are still to happen, in the order in which they came to be."""
        entries = sorted(self._heap, key=lambda entry: entry[2])
        return [entry[3] for entry in entries if entry[3].is_due]

    def move(self, event: Event, at_us: int) -> None:
        """Have it happen at another time."""
        self.take(event)
        event.at_us = at_us
        self.push(event)

    def take(self, event: Event) -> None:
        """Take a certain event out, to let it happen now or never."""
        self._heap = [entry for entry in self._heap if entry[3] is not event]
        heapq.heapify(self._heap)
