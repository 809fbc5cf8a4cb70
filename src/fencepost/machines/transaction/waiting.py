"""Requests to add partitions that wait until the transaction before is complete.

A producer that ends a transaction has its answer when the end is decided, and begins the next one
while markers are on their way. Kafka answers its request CONCURRENT_TRANSACTIONS, and the producer,
or the leader that adds for it, asks again after 20 ms; the markers often take a fraction of that.
Here a request that lacks nothing but the completion waits for it, and is then decided as if it had
come behind it. One that has waited for `WAIT_MS` is decided as it is: CONCURRENT_TRANSACTIONS, if
nothing has changed.

Each has a timer of its own, which the completion has fire at once. So every request is decided by
itself, against the state of that moment: whatever came between (a new producer, the next end) has
its say. The completion is appended by then, and perhaps not committed, like the records that any
other decision builds on.

Waiting requests live in memory alone: when the coordinator is unloaded, they are answered
NOT_COORDINATOR with all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final, NamedTuple

from fencepost.machines.coordinator import TimerName, UndoLog
from fencepost.machines.transaction.requests import AddPartitions

ADD_TIMER: Final = "add"
"""The first word of the timers' names; the second is the transactional id, the third a number."""
WAIT_MS: Final = 20
"""As long as producers, and leaders by default, pause before they ask again."""
WAITING_MAX: Final = 10
"""Requests of one transactional id; each leader of its partitions may have one, and further ones
are not kept."""


class Wait(NamedTuple):
    """A change: the request waits from now on."""

    name: TimerName
    request: AddPartitions
    token: Any


class WaitOver(NamedTuple):
    """A change: the request of that timer waits no more."""

    name: TimerName


class WaitingAdds:
    """The requests that wait in one coordinator."""

    def __init__(self, undo_log: UndoLog) -> None:
        self._undo_log = undo_log
        self._waiting: dict[str, dict[TimerName, Wait]] = {}  # by transactional id
        self._last_number = 0

    def next_name(self, transactional_id: str) -> TimerName | None:
        """What the timer of one more request is called; None if as many wait as may."""
        if len(self._waiting.get(transactional_id, ())) >= WAITING_MAX:
            return None
        return ADD_TIMER, transactional_id, str(self._last_number + 1)

    def names_of(self, transactional_id: str) -> Iterable[TimerName]:
        """The timers of the requests of an id, in the order in which they came."""
        return self._waiting.get(transactional_id, ())

    def get(self, name: TimerName) -> Wait | None:
        """The request of a timer; None if it waits no more."""
        return self._waiting.get(name[1], {}).get(name)

    def apply(self, change: Wait | WaitOver) -> None:
        """The change has happened."""
        if isinstance(change, Wait):
            self._last_number += 1
            self._undo_log.note(partial(self._remove, change.name))
            self._put(change)
        elif (wait := self._remove(change.name)) is not None:
            self._undo_log.note(partial(self._put, wait))

    def clear(self) -> None:
        """No request waits any more."""
        self._waiting.clear()

    def _put(self, wait: Wait) -> None:
        self._waiting.setdefault(wait.name[1], {})[wait.name] = wait

    def _remove(self, name: TimerName) -> Wait | None:
        of_id = self._waiting.get(name[1], {})
        wait = of_id.pop(name, None)
        if not of_id:
            self._waiting.pop(name[1], None)
        return wait
