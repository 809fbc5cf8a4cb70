"""`CoordinatorMachine`: what `runtime.coordinator` expects of a coordinator.

`decide_*` methods look at the state and return a `Decision`; they change nothing. Only `apply`,
`apply_transaction_end` and `apply_change` change the state, and they note in `undo_log` how to undo
it. The first two are also how a partition is loaded, so they take whatever a log may hold, after
compaction too: a tombstone of something that is not there changes nothing, and of records that
belong together some may be missing.

The machine knows no clock: timers are set as delays, and decisions that stamp a time or judge the
age of a stamp are given the wall clock.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from fencepost.machines.coordinator.decision import Decision, TimerName
from fencepost.machines.coordinator.undo_log import UndoLog

R = TypeVar("R")


class CoordinatorMachine(Protocol[R]):
    """See the module docstring; `R` is its record."""

    undo_log: UndoLog
    max_batch_bytes: int
    """The largest batch its partition takes, set by the runtime before each decision."""

    def apply(self, record: R, offset: int, producer_id: int) -> None:
        """A record is about to be appended at `offset`, or is read from there.

        `producer_id` is -1 for a record that belongs to no transaction.
        """
        ...

    def apply_transaction_end(self, producer_id: int, *, committed: bool) -> None:
        """The marker that ends a producer's transaction is about to be appended, or is read."""
        ...

    def apply_change(self, change: Any) -> None:
        """A change that lives in memory alone happens."""
        ...

    def decide_loaded(self, wall_ms: int) -> Decision[R]:
        """The whole partition has been applied: set what timers its state needs."""
        ...

    def decide_timer(self, name: TimerName, wall_ms: int) -> Decision[R]:
        """A timer has fired."""
        ...

    def discard(self) -> None:
        """The partition is unloaded: nothing of the state is needed any more."""
        ...
