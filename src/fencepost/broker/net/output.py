"""Answers that leave: one connection's bytes until its client has taken them.

Small output leaves as one concatenated write, large output as the parts themselves. How bytes reach
the socket is the `writer`'s to know, and nobody else writes to it: a layer that encrypts may stand
between. What is here counts in the `memory_budget`, what is written of large output in the `turn`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from fencepost.broker.net.memory_budget import MemoryBudget
from fencepost.broker.net.turn import SMALL_BYTES, Turn
from fencepost.broker.net.writer import Buffer, Writer

SMALL_OUTPUT_BYTES: Final = SMALL_BYTES
"""Below this, one concatenated write is cheaper than a vector."""


class Output:
    """See the module docstring."""

    __slots__ = (
        "_budget",
        "_moved_at",
        "_now",
        "_parts",
        "_transport",
        "_turn",
        "_writer",
        "is_paused",
        "size_bytes",
    )

    def __init__(
        self,
        transport: Any,
        writer: Writer,
        budget: MemoryBudget,
        turn: Turn,
        now: Callable[[], float],
    ) -> None:
        self._transport = transport
        self._writer = writer
        self._budget = budget
        self._turn = turn
        self._now = now
        self._parts: deque[Buffer] = deque()
        self._moved_at = 0.0
        self.size_bytes = 0
        self.is_paused = False
        """The transport buffers enough: nothing is written until the socket has taken it."""

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def stalled_since(self) -> float | None:
        """The loop's time at which the client last took something; None if there is nothing."""
        return self._moved_at if self._parts or self.is_paused else None

    def put(self, parts: list[Buffer]) -> None:
        """An answer's bytes, behind those that are here."""
        size_bytes = len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        if not self._parts:
            self._moved_at = self._now()
        self.size_bytes += size_bytes
        self._parts.extend(parts)
        self._budget.add_outgoing(size_bytes)

    def drop(self) -> None:
        """Nobody will take it."""
        self._budget.add_outgoing(-self.size_bytes)
        self._parts.clear()
        self.size_bytes = 0

    @property
    def is_large(self) -> bool:
        """Whether there is so much that others may have to go first."""
        return self.size_bytes > SMALL_OUTPUT_BYTES

    def write(self, most_bytes: int) -> bool:
        """Write all that is small, or as much of it as the writer takes now and `most_bytes`
        allows; whether there was anything that may be written."""
        if not self._parts or self.is_paused or self._transport.is_closing():
            return False
        if self.size_bytes <= SMALL_OUTPUT_BYTES:
            data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self.drop()
            self._writer.write(data)
        else:
            self._write_large(most_bytes)
        return True

    def _write_large(self, most_bytes: int) -> None:
        try:
            self._sent(self._writer.write_some(self._parts, most_bytes))
        except OSError:
            self.drop()  # the transport will find out, and why, by itself
            self._transport.abort()

    def _sent(self, count_bytes: int) -> None:
        """Drop `count_bytes` from the front."""
        self.size_bytes -= count_bytes
        self._budget.add_outgoing(-count_bytes)
        self._turn.spend_bytes(count_bytes)
        self._moved_at = self._now()
        parts = self._parts
        while count_bytes:
            first = parts[0]
            if len(first) > count_bytes:
                parts[0] = memoryview(first)[count_bytes:]
                return
            count_bytes -= len(first)
            parts.popleft()
