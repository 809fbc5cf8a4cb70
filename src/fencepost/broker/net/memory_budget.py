"""What the connections of a node may buffer together, and which of them it disconnects beyond that.

Theory of operation
-------------------
Each connection has bounds of its own (see `connection`), but there may be thousands of them, so
there are bounds on the sums, too:

* Incoming: what is kept of frames that have not arrived whole, or cannot be served yet. When they
  come to more than `INCOMING_FRAMES` of the largest frames, the sender with the lowest rate since
  its frame began is evicted: a client that sends a hundred megabytes a byte at a time does not keep
  others out.
* Outgoing: answers that clients have not taken. Answers that can be smaller (Fetch) are told the
  `available_bytes`, which shrink as memory fills, down to `AVAILABLE_BYTES_MIN`. When the bound is
  passed all the same, clients that took nothing for `STALLED_S` are evicted, those that have
  stalled the longest first.
* Waiting: what requests have become that are not answered yet (a Fetch that waits has an object
  for every partition), and answers that are known and wait behind another. The client whose
  requests take the most is evicted when all of them take more than `WAITING_BYTES_MAX`.

To evict is to disconnect at once and drop what is buffered. The sums count buffers by their size,
not what Python needs around them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from fencepost.runtime.requests.context import AVAILABLE_BYTES_MIN

INCOMING_FRAMES: Final = 4
OUTGOING_BYTES_MAX: Final = 256 * 1024 * 1024
WAITING_BYTES_MAX: Final = 512 * 1024 * 1024
SHARE: Final = 4
"""An answer is offered one part in so many of what is left."""
STALLED_S: Final = 2.0
EVICT_EVERY_S: Final = 0.25


class BufferingClient(Protocol):
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
    def buffered_bytes(self) -> int:
        """What requests without an answer, and answers that wait behind them, take."""
        ...

    def evict(self, reason: str) -> None:
        """Disconnect at once, dropping what is buffered, with a log line."""
        ...


class MemoryBudget:
    """The sums, and their bounds."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clients: Callable[[], Iterable[BufferingClient]],
        max_frame_bytes: int,
    ) -> None:
        self._loop = loop
        self._clients = clients
        self.incoming_bytes = 0
        self.outgoing_bytes = 0
        self.waiting_bytes = 0
        self.incoming_bytes_max = INCOMING_FRAMES * max_frame_bytes
        self.outgoing_bytes_max = OUTGOING_BYTES_MAX
        self._eviction: asyncio.TimerHandle | None = None

    def add_incoming(self, size_bytes: int) -> None:
        """A connection buffers so much more (or less) of unfinished frames; may evict."""
        self.incoming_bytes += size_bytes
        if size_bytes > 0 and self.incoming_bytes > self.incoming_bytes_max:
            self._evict_slowest_sender()

    def add_outgoing(self, size_bytes: int) -> None:
        """A connection buffers so much more (or less) output; may evict, after a moment."""
        self.outgoing_bytes += size_bytes
        if self.outgoing_bytes > self.outgoing_bytes_max and self._eviction is None:
            self._eviction = self._loop.call_later(EVICT_EVERY_S, self._evict_stalled)

    def add_waiting(self, size_bytes: int) -> None:
        """Requests that wait take so much more (or less); may evict."""
        self.waiting_bytes += size_bytes
        if size_bytes > 0 and self.waiting_bytes > WAITING_BYTES_MAX:
            most = max(self._clients(), key=lambda client: client.buffered_bytes)
            most.evict(
                f"requests of all clients that wait for their answers take {self.waiting_bytes}"
                f" bytes, more than {WAITING_BYTES_MAX}, and those of this one the most:"
                f" {most.buffered_bytes}"
            )

    @property
    def waiting_bytes_max(self) -> int:
        """What requests that wait may take together, in bytes."""
        return WAITING_BYTES_MAX

    @property
    def available_bytes(self) -> int:
        """How large an answer should be at most, if that can be chosen, in bytes."""
        left_bytes = self.outgoing_bytes_max - self.outgoing_bytes
        return max(left_bytes // SHARE, AVAILABLE_BYTES_MIN)

    def close(self) -> None:
        """Do nothing any more."""
        if self._eviction is not None:
            self._eviction.cancel()

    def _evict_slowest_sender(self) -> None:
        rates = [(rate, c) for c in self._clients() if (rate := c.incoming_rate) is not None]
        if rates:
            _, slowest = min(rates, key=lambda entry: entry[0])
            slowest.evict(
                f"unfinished requests of all clients take {self.incoming_bytes} bytes, more than "
                f"{INCOMING_FRAMES} times socket.request.max.bytes, and this one is the slowest"
            )

    def _evict_stalled(self) -> None:
        self._eviction = None
        now = self._loop.time()
        stalled = sorted(
            (
                (since, number, client)
                for number, client in enumerate(self._clients())
                if (since := client.output_stalled_since) is not None and now - since >= STALLED_S
            ),
        )
        for since, _, client in stalled:
            if self.outgoing_bytes <= self.outgoing_bytes_max:
                return
            client.evict(
                f"answers that clients do not read take {self.outgoing_bytes} bytes, and this"
                f" client has read nothing for {now - since:.1f} s"
            )
        if self.outgoing_bytes > self.outgoing_bytes_max:
            self._eviction = self._loop.call_later(EVICT_EVERY_S, self._evict_stalled)
