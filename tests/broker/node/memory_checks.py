"""What `MemoryTrim` gives back and what it leaves, in a process of its own.

    python -m tests.broker.node.memory_checks NAME

runs one of the functions here. The process of a test runner will not do: its other threads, and its
garbage collector, free memory at any moment.
"""

from __future__ import annotations

import sys

import psutil

from fencepost.broker.node.memory_trim import TRIM_FROM_BYTES, MemoryTrim

MIB = 1 << 20
BLOCK_BYTES = 20_000
"""Large enough for malloc, too small for a mapping of its own."""
IMPOSSIBLE = 77
"""The exit code where the C library has no malloc_trim and mallinfo2."""


def resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


def blocks(size_bytes: int) -> list[bytes]:
    return [b"x" * BLOCK_BYTES for _ in range(size_bytes // BLOCK_BYTES)]


def what_a_burst_left_is_given_back(trim: MemoryTrim) -> None:
    burst = blocks(200 * MIB)
    pinned = burst[-1]  # the end of the heap stays in use
    full_bytes = resident_bytes()
    assert not trim.trim_if_due(), "all of it is in use"
    del burst
    assert trim.trim_if_due()
    assert full_bytes - resident_bytes() > 100 * MIB
    assert len(pinned) == BLOCK_BYTES


def a_burst_before_the_watch_is_given_back_too(_: MemoryTrim) -> None:
    burst = blocks(4 * TRIM_FROM_BYTES)
    pinned = burst[-1]
    del burst
    assert MemoryTrim().trim_if_due()
    assert len(pinned) == BLOCK_BYTES


def it_is_done_once_for_each_burst(trim: MemoryTrim) -> None:
    for _ in range(3):
        burst = blocks(4 * TRIM_FROM_BYTES)
        trim.trim_if_due()
        pinned = burst[-1]  # else the library gives the end of its heap back by itself
        del burst
        assert len(pinned) == BLOCK_BYTES
        assert trim.trim_if_due()
        assert not trim.trim_if_due(), "nothing was freed since"


def what_was_used_again_between_two_looks_is_given_back_again(trim: MemoryTrim) -> None:
    """As much is free as before; that it has pages again shows elsewhere."""
    pinned = [b"x" * BLOCK_BYTES]
    for _ in range(3):
        burst = blocks(4 * TRIM_FROM_BYTES)
        full_bytes = resident_bytes()
        pinned.append(burst[-1])
        del burst
        assert trim.trim_if_due()
        assert full_bytes - resident_bytes() > 2 * TRIM_FROM_BYTES


def little_is_left_to_the_library(trim: MemoryTrim) -> None:
    little = blocks(TRIM_FROM_BYTES // 4)
    trim.trim_if_due()
    del little
    assert not trim.trim_if_due()


CHECKS = (
    what_a_burst_left_is_given_back,
    a_burst_before_the_watch_is_given_back_too,
    it_is_done_once_for_each_burst,
    what_was_used_again_between_two_looks_is_given_back_again,
    little_is_left_to_the_library,
)


def main() -> None:
    trim = MemoryTrim()
    if not trim.is_possible:
        sys.exit(IMPOSSIBLE)
    trim.trim_if_due()
    (check,) = [one for one in CHECKS if one.__name__ == sys.argv[1]]
    check(trim)


if __name__ == "__main__":
    main()
