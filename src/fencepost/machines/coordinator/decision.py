"""`Decision`: what a coordinator wants to happen, before anything of it has.

Theory of operation
-------------------
A coordinator looks at its state and answers with a `Decision`; it changes nothing. The runtime
carries the decision out as a whole or not at all:

1. `changes`, which live in memory alone (members that join, requests that wait), and `records` are
   applied to the coordinator, so that a record that cannot be applied never gets into the log;
2. the records are appended to the coordinator's partition. If the log refuses them, the coordinator
   is reverted to what it was, the client is answered the error, and `on_refused` may decide what
   else follows from that;
3. once they are appended, `timers` are set and `works` begin;
4. once they are committed, and everything appended before them is, `replies` and `sends` leave. So
   no reply tells of anything that could still be lost, replies to reads included.

The next decision is made when step 2 is done, never between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct, field

from fencepost.machines.partition.inputs import NO_TICKET
from fencepost.wire.errors import ErrorCode

R = TypeVar("R")
"""A record, as the machine and its codec know it."""

TimerName = tuple[str, ...]
"""What a timer is for; setting it again replaces it."""


WorkName = tuple[str, ...]
"""What work elsewhere is for; beginning another under the same name replaces it."""


class WorkResult(NamedTuple):
    """What became of work elsewhere: its value, or the exception that it ended with."""

    value: Any = None
    error: Exception | None = None


class Work(Struct, Generic[R], frozen=True):
    """Work that would hold up the coordinator, done on another thread (an assignor, patterns).

    `run(spec)` computes from `spec` alone and changes nothing. The spec must be immutable: the
    coordinator goes on deciding meanwhile, so its own state is none. `on_done` decides what follows
    from the result, with the wall clock in milliseconds. By then the group may be gone or its epoch
    another, which `on_done` checks first: its decision may be empty.
    """

    name: WorkName
    run: Callable[[Any], Any]
    spec: Any
    on_done: Callable[[WorkResult, int], Decision[R]]


class Producer(NamedTuple):
    """Whose transaction the records belong to (TxnOffsetCommit).

    `ticket` says that the transaction's coordinator knows of it (`machines.partition`).
    """

    producer_id: int
    producer_epoch: int
    ticket: int = NO_TICKET


class TransactionEnd(NamedTuple):
    """The marker that ends a producer's transaction in the coordinator's partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int = 0


class Decision(Struct, Generic[R]):
    """See the module docstring."""

    records: list[R] = field(default_factory=list)
    changes: list[Any] = field(default_factory=list)
    """What changes in memory alone; given to `apply_change` before the records are applied."""
    replies: list[tuple[Any, Any]] = field(default_factory=list)
    """(token, response)"""
    sends: list[Any] = field(default_factory=list)
    """Messages for others (transaction markers), given to the runtime's `on_send`."""
    timers: list[tuple[TimerName, int | None]] = field(default_factory=list)
    """(name, delay in milliseconds), or None to cancel it."""
    works: list[tuple[WorkName, Work[R] | None]] = field(default_factory=list)
    """(name, work elsewhere that begins), or None: the result of what was begun is not wanted."""
    notes: list[str] = field(default_factory=list)
    """What an operator may want to read in the log, once the decision has been carried out."""
    is_atomic: bool = True
    """Whether the records are one batch or nothing. Otherwise they are split into as many batches
    as they need, and the first ones stay if a later one is refused."""
    spare_bytes: int = 0
    """How much smaller than the largest batch the records must be, since what follows from them may
    be so much larger, and could not be refused then."""
    producer: Producer | None = None
    """The records are part of this producer's transaction; they are atomic then."""
    transaction_end: TransactionEnd | None = None
    """A marker to be written behind nothing else: a decision has this or records."""
    on_refused: Callable[[ErrorCode], Decision[R]] | None = None
    """What to decide when the log has refused the records; the state is as before by then."""

    def reply(self, token: Any, response: Any) -> None:
        """Answer the request behind `token`."""
        self.replies.append((token, response))

    def set_timer(self, name: TimerName, delay_ms: int | None) -> None:
        """Have the timer fire `delay_ms` from now (over one set before), or cancel it with None."""
        self.timers.append((name, delay_ms))

    def begin_work(
        self,
        name: WorkName,
        run: Callable[[Any], Any],
        spec: Any,
        on_done: Callable[[WorkResult, int], Decision[R]],
    ) -> None:
        """Have `run(spec)` computed elsewhere, in the place of what was begun under the name."""
        self.works.append((name, Work(name, run, spec, on_done)))

    def drop_work(self, name: WorkName) -> None:
        """The result of what was begun under the name is not wanted any more."""
        self.works.append((name, None))
