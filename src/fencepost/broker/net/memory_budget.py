"""What the connections of a node hold in memory together, and who gives way when it is too much.

Theory of operation
-------------------
Each connection has bounds of its own (see `connection`), but there may be thousands of them, so
there are bounds on the sums, too:

* Incoming: what is kept of frames that have not arrived whole, or cannot be served yet. When they
  come to more than `INCOMING_FRAMES` of the largest frames, the sender with the lowest rate since
  its frame began is disconnected: who sends a hundred megabytes a byte at a time does not keep out
  who means it.
* Outgoing: answers that clients have not taken. Answers that can be smaller (Fetch) are told how
  much there is `room` for, which shrinks as memory fills, down to `SMALLEST_ROOM_BYTES`. When the
  bound is passed all the same, clients that took nothing for `STALLED_S` are hung up on, those that
  have stalled the longest first.

* Waiting: what requests have become that are not answered yet (a Fetch that waits has an object
  for every partition), and answers that are known and wait behind another. The client whose
  requests take the most is hung up on when all of them take more than `WAITING_BYTES_MAX`.

The sums count buffers by their size, not what Python needs around them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Protocol

INCOMING_FRAMES: Final = 4
OUTGOING_BYTES_MAX: Final = 256 * 1024 * 1024
WAITING_BYTES_MAX: Final = 512 * 1024 * 1024
SMALLEST_ROOM_BYTES: Final = 64 * 1024
SHARE: Final = 4
"""An answer is offered one part in so many of the room that is left."""
STALLED_S: Final = 2.0
RELIEVE_EVERY_S: Final = 0.25


class Holder(Protocol):
    """A connection, as far as it matters here."""

    @property
    def incoming_rate(self) -> float | None:
        """Bytes per second of the frame that is arriving; None if none is, or it is not read."""
        ...

    @property
    def output_stalled_since(self) -> float | None:
        """The loop's time at which the client last took output; None if there is none to take."""
        ...

    @property
    def held_bytes(self) -> int:
        """What requests without an answer, and answers that wait behind them, take."""
        ...

    def give_way(self, reason: str) -> None:
        """Hang up at once, dropping what is held, with a log line."""
        ...


class Held:
    """The sums, and their bounds."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        holders: Callable[[], Iterable[Holder]],
        max_frame_bytes: int,
    ) -> None:
        self._loop = loop
        self._holders = holders
        self.incoming_bytes = 0
        self.outgoing_bytes = 0
        self.waiting_bytes = 0
        self.incoming_bytes_max = INCOMING_FRAMES * max_frame_bytes
        self.outgoing_bytes_max = OUTGOING_BYTES_MAX
        self._relief: asyncio.TimerHandle | None = None

    def add_incoming(self, size_bytes: int) -> None:
        """A connection holds so much more (or less) of unfinished frames; may make room."""
        self.incoming_bytes += size_bytes
        if size_bytes > 0 and self.incoming_bytes > self.incoming_bytes_max:
            self._drop_slowest_sender()

    def add_outgoing(self, size_bytes: int) -> None:
        """A connection holds so much more (or less) output; sees to it that room is made."""
        self.outgoing_bytes += size_bytes
        if self.outgoing_bytes > self.outgoing_bytes_max and self._relief is None:
            self._relief = self._loop.call_later(RELIEVE_EVERY_S, self._relieve)

    def add_waiting(self, size_bytes: int) -> None:
        """Requests that wait take so much more (or less); may make room."""
        self.waiting_bytes += size_bytes
        if size_bytes > 0 and self.waiting_bytes > WAITING_BYTES_MAX:
            most = max(self._holders(), key=lambda holder: holder.held_bytes)
            most.give_way(
                f"requests of all clients that wait for their answers take {self.waiting_bytes}"
                f" bytes, more than {WAITING_BYTES_MAX}, and those of this one the most:"
                f" {most.held_bytes}"
            )

    def room(self) -> int:
        """How large an answer should be at most, if that can be chosen, in bytes."""
        left_bytes = self.outgoing_bytes_max - self.outgoing_bytes
        return max(left_bytes // SHARE, SMALLEST_ROOM_BYTES)

    def close(self) -> None:
        """Do nothing any more."""
        if self._relief is not None:
            self._relief.cancel()

    def _drop_slowest_sender(self) -> None:
        rates = [(rate, h) for h in self._holders() if (rate := h.incoming_rate) is not None]
        if rates:
            _, slowest = min(rates, key=lambda entry: entry[0])
            slowest.give_way(
                f"unfinished requests of all clients take {self.incoming_bytes} bytes, more than "
                f"{INCOMING_FRAMES} times socket.request.max.bytes, and this one is the slowest"
            )

    def _relieve(self) -> None:
        self._relief = None
        now = self._loop.time()
        stalled = sorted(
            (
                (since, number, holder)
                for number, holder in enumerate(self._holders())
                if (since := holder.output_stalled_since) is not None and now - since >= STALLED_S
            ),
        )
        for since, _, holder in stalled:
            if self.outgoing_bytes <= self.outgoing_bytes_max:
                return
            holder.give_way(
                f"answers nobody takes fill {self.outgoing_bytes} bytes, and this client has taken "
                f"nothing for {now - since:.1f} s"
            )
        if self.outgoing_bytes > self.outgoing_bytes_max:
            self._relief = self._loop.call_later(RELIEVE_EVERY_S, self._relieve)
