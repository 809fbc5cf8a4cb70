"""What the connections of a listener may do together in one turn of the event loop.

Theory of operation
-------------------
Between two polls for events the loop calls every connection on which something has happened, and a
small request has to wait for all of them. So there are bounds on what they do in one turn, however
many they are:

* Bytes: what answers read from logs comes to `TURN_BYTES`, and so does what is received of large
  frames and written of large output. These are two sums, so that what was read now is written now.
  One connection writes at most `QUANTUM_BYTES`, and receives as much (`Share`): libuv reads from a
  socket again and again while there is more, so that one client that always has more would take the
  whole turn, and all others `SMALL_BYTES` each.
* Time: requests that have arrived together are dispatched for `DISPATCH_S` on one connection
  (`connection`), and for `TURN_DISPATCH_S` on all.

When a bound is reached, every connection goes on with what is small: each has one request
dispatched, up to `SMALL_BYTES` are received, read for an answer, and written. A connection that
has more to do waits in a queue for a later turn. Connections of brokers (a follower has fetched on
them) come before those of clients, one of which is served in every turn all the same.

A turn is over when a callback runs that was given to the loop during it. It is given once something
was counted; small requests cost nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from fencepost.runtime.requests.context import QUANTUM_BYTES

TURN_BYTES: Final = 4 * 1024 * 1024
SMALL_BYTES: Final = 32 * 1024
TURN_DISPATCH_S: Final = 0.01
COUNTED_S: Final = 0.0002
"""A connection's time below this is not counted."""


class Waiting(Protocol):
    """A connection that may wait."""

    is_broker: bool
    """Whether a broker is its client."""

    def go_on(self) -> int:
        """Go on reading and writing; how many bytes it is about to receive."""
        ...


class Turn:
    """The bounds of the turn that runs, and the queue for the next; see the module."""

    __slots__ = (
        "_brokers",
        "_call_soon",
        "_clients",
        "_is_scheduled",
        "left_bytes",
        "left_read_bytes",
        "left_s",
        "number",
    )

    def __init__(self, call_soon: Callable[[Callable[[], None]], Any]) -> None:
        self._call_soon = call_soon
        self._brokers: dict[Waiting, None] = {}
        self._clients: dict[Waiting, None] = {}
        self._is_scheduled = False
        self.number = 0
        """Of the turn that runs; turns in which nothing was counted have none."""
        self.left_bytes = TURN_BYTES
        """What may still be received and written in this turn; nothing large if it is not
        positive."""
        self.left_read_bytes = TURN_BYTES
        """What answers may still read."""
        self.left_s = TURN_DISPATCH_S
        """How long requests may still be dispatched in this turn."""

    @property
    def at_once_bytes(self) -> int:
        """How many bytes an answer may read without letting others go first."""
        return QUANTUM_BYTES if self.left_read_bytes > 0 else SMALL_BYTES

    def spend_bytes(self, size_bytes: int) -> None:
        """So many were received or written."""
        self.left_bytes -= size_bytes
        self._schedule()

    def spend_read_bytes(self, size_bytes: int) -> None:
        """So many were read from a log."""
        self.left_read_bytes -= size_bytes
        self._schedule()

    def spend_s(self, seconds: float) -> None:
        """Requests were dispatched for so long."""
        self.left_s -= seconds
        self._schedule()

    def wait(self, connection: Waiting) -> None:
        """Have the connection go on in a later turn, behind those that wait already."""
        (self._brokers if connection.is_broker else self._clients)[connection] = None
        self._schedule()

    def forget(self, connection: Waiting) -> None:
        """The connection is gone."""
        self._brokers.pop(connection, None)
        self._clients.pop(connection, None)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._begin)

    def _begin(self) -> None:
        """Another turn: those that wait go on, as long as there are bytes left."""
        self._is_scheduled = False
        self.number += 1
        self.left_bytes = self.left_read_bytes = TURN_BYTES
        self.left_s = TURN_DISPATCH_S
        try:
            self._go_on_in(self._brokers)
            if self._clients:  # brokers never take all of it
                self.left_bytes = max(self.left_bytes, 1)
                self._go_on_in(self._clients)
        finally:  # the trouble of one is not that of those behind it
            if self._brokers or self._clients:
                self._schedule()

    def _go_on_in(self, queue: dict[Waiting, None]) -> None:
        """Those that are in the queue now, each once, until the bytes are spent."""
        for _ in range(len(queue)):
            if self.left_bytes <= 0 or not queue:
                return
            connection = next(iter(queue))
            del queue[connection]
            self.spend_bytes(connection.go_on())


class Share:
    """What one connection may receive of large frames in the turn that runs.

    One that goes on has its share reserved, and the turn counts all of it then. Otherwise what is
    received is counted: many that send less than a share have their turn together.
    """

    __slots__ = ("_is_reserved", "_left_bytes", "_number", "_turn")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._number = -1
        self._left_bytes = 0
        self._is_reserved = False

    @property
    def receivable_bytes(self) -> int:
        """How much may be received at once."""
        turn = self._turn
        if self._number != turn.number:  # nothing large so far: what most reads find
            return QUANTUM_BYTES if turn.left_bytes > 0 else SMALL_BYTES
        if self._is_reserved or turn.left_bytes > 0:
            return max(self._left_bytes, SMALL_BYTES)
        return SMALL_BYTES

    def reserve(self) -> int:
        """What the connection may receive when it goes on; the turn is yet to count it."""
        self._begin()
        self._left_bytes = QUANTUM_BYTES
        self._is_reserved = True
        return QUANTUM_BYTES

    def spend(self, size_bytes: int) -> bool:
        """So many bytes were received; whether the connection has to let others go first."""
        self._begin()
        self._left_bytes -= size_bytes
        if self._is_reserved:
            return self._left_bytes <= 0
        self._turn.spend_bytes(size_bytes)
        return self._left_bytes <= 0 or self._turn.left_bytes <= 0

    def _begin(self) -> None:
        """Have a share of the turn that runs."""
        if self._number != self._turn.number:
            self._number = self._turn.number
            self._left_bytes = QUANTUM_BYTES
            self._is_reserved = False
