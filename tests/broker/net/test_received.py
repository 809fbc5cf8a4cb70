"""What is kept of frames that have not arrived whole: how fast they arrive, and what they take."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from fencepost.broker.net.memory_budget import MemoryBudget
from fencepost.broker.net.received import (
    RETAINED_BUFFER_BYTES,
    SCRATCH_SIZE_BYTES,
    SMALL_FRAME_BYTES,
    YOUNGEST_FRAME_S,
    Received,
)

FRAME_BYTES_MAX = 1 << 23


class Arriving:
    """A connection on which bytes arrive; `taken_bytes` of them have been dispatched."""

    def __init__(self) -> None:
        unused: Any = None
        self.budget = MemoryBudget(unused, lambda: (), FRAME_BYTES_MAX)
        self.received = Received(memoryview(bytearray(SCRATCH_SIZE_BYTES)), self.budget)

    def receive(self, arriving: bytes, now_s: float = 0.0, *, taken: bool = False) -> None:
        """As many bytes as arrive, of which all are dispatched if `taken`, else none."""
        room = self.received.room(len(arriving))
        count_bytes = min(len(room), len(arriving))
        room[:count_bytes] = arriving[:count_bytes]
        view, end = self.received.add(count_bytes)
        is_last = count_bytes == len(arriving)
        start = end if taken and is_last else 0
        self.received.keep(
            view, start, end, now_s, is_stalled=False, frame_bytes_max=FRAME_BYTES_MAX
        )
        if not is_last:
            self.receive(arriving[count_bytes:], now_s, taken=taken)


@pytest.fixture
def connection() -> Arriving:
    return Arriving()


def test_the_rate_is_of_all_that_has_arrived_since_the_frame_began(connection: Arriving) -> None:
    assert connection.received.rate(5.0) is None
    connection.receive(struct.pack(">i", 16) + b"ab", 10.0)
    assert connection.received.rate(10.0) == 6 / YOUNGEST_FRAME_S, "it has just begun"
    connection.receive(b"cd", 14.0)
    assert connection.received.rate(20.0) == 8 / 10
    connection.receive(bytes(12), 30.0, taken=True)
    assert connection.received.rate(30.0) is None
    connection.receive(struct.pack(">i", 16), 40.0)
    assert connection.received.rate(42.0) == 4 / 2, "another frame"


def test_the_rate_of_a_long_frame_is_of_what_has_arrived(connection: Arriving) -> None:
    size_bytes = 2 * SMALL_FRAME_BYTES
    connection.receive(struct.pack(">i", size_bytes) + bytes(SMALL_FRAME_BYTES), 10.0)
    connection.receive(bytes(100), 15.0)
    assert connection.received.rate(20.0) == (4 + SMALL_FRAME_BYTES + 100) / 10


@pytest.mark.parametrize("size_bytes", [100, 2 * SMALL_FRAME_BYTES])
def test_what_is_dropped_counts_no_more(connection: Arriving, size_bytes: int) -> None:
    connection.receive(struct.pack(">i", size_bytes) + bytes(size_bytes - 1))
    assert connection.budget.incoming_bytes >= 4 + size_bytes - 1
    connection.received.drop()
    assert connection.budget.incoming_bytes == 0 and connection.received.take_kept() is None


def test_the_buffer_of_a_long_frame_is_kept_until_the_next_sweep(connection: Arriving) -> None:
    size_bytes = 2 * SMALL_FRAME_BYTES
    connection.receive(struct.pack(">i", size_bytes) + bytes(SMALL_FRAME_BYTES))
    connection.receive(bytes(SMALL_FRAME_BYTES), taken=True)
    assert connection.budget.incoming_bytes == 4 + size_bytes
    connection.received.sweep()
    assert connection.budget.incoming_bytes == 0


def test_the_buffer_of_a_very_long_frame_is_not_kept(connection: Arriving) -> None:
    size_bytes = RETAINED_BUFFER_BYTES
    connection.receive(struct.pack(">i", size_bytes) + bytes(SMALL_FRAME_BYTES))
    connection.receive(bytes(size_bytes - SMALL_FRAME_BYTES), taken=True)
    assert connection.budget.incoming_bytes == 0
