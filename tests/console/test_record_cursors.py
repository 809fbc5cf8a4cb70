"""Cursors over logs with gaps, as compaction leaves them: what they find, and what that takes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.batch.records import BatchBuilder
from fencepost.client.fetch_core import Fetched
from fencepost.client.metadata import TopicPartition
from fencepost.console.records.cursors import (
    WINDOW_BYTES_MAX,
    BackwardCursor,
    Cursor,
    ForwardCursor,
    LookEnded,
)
from fencepost.console.records.decoders import Decoder
from fencepost.console.records.row_maker import RowMaker

PLACE = TopicPartition("t", 0)
MAKE = RowMaker(Decoder("auto"), Decoder("auto"))


class Log:
    """A log of one record in each of `offsets`, as a broker with `end` would give it."""

    def __init__(self, offsets: list[int], end: int, value: bytes = b"v") -> None:
        self.end = end
        self.batches = []
        self.fetched_bytes = self.fetches = 0
        for offset in offsets:
            builder = BatchBuilder()
            builder.append(None, value, timestamp_ms=offset)
            self.batches.append((offset, bytes(builder.build(base_offset=offset))))

    def fetch(self, position: int, bytes_max: int) -> Fetched:
        """Whole batches from `position` on: one at least, where there is one."""
        blob, reached = b"", position
        for offset, batch in self.batches:
            if offset < position:
                continue
            if blob and len(blob) + len(batch) > bytes_max:
                break
            blob, reached = blob + batch, offset + 1
        self.fetched_bytes += len(blob)
        self.fetches += 1
        return Fetched(
            PLACE, memoryview(blob), reached, 0, self.end, self.end, 0, (), None, position
        )

    def drain(self, cursor: Cursor, wanted: int, fetches_max: int = 1_000) -> list[int]:
        """The offsets that a cursor finds, until there are so many."""
        found: list[int] = []
        while len(found) < wanted and not (cursor.is_done and not cursor.ready):
            if cursor.ready:
                found.append(cursor.ready.popleft().offset)
                continue
            assert self.fetches < fetches_max, "it makes no progress"
            answer = self.fetch(cursor.position, cursor.fetch_bytes)
            cursor.take(answer, MAKE, wanted, lambda: False)
        return found


def test_the_newest_of_a_compacted_log_are_found_in_few_steps():
    offsets = [*range(20), 10_000_000]
    log = Log(offsets, 50_000_000)
    cursor = BackwardCursor(PLACE, 0, log.end, 20)
    assert log.drain(cursor, 10) == [10_000_000, *range(19, 10, -1)]
    assert log.fetches < 40
    assert cursor.scanned == (11, log.end)


def test_an_end_that_was_compacted_away_ends_a_look():
    log = Log([0, 1], 1_000)
    forward = ForwardCursor(PLACE, 0, log.end)
    assert log.drain(forward, 10) == [0, 1]
    assert forward.scanned == (0, 1_000)
    assert log.fetches < 5


def test_large_records_narrow_the_window():
    log = Log(list(range(100)), 100, b"x" * 400_000)
    cursor = BackwardCursor(PLACE, 0, 100, 100)
    assert log.drain(cursor, 3) == [99, 98, 97]
    assert log.fetched_bytes < 5 * WINDOW_BYTES_MAX, "not the whole log of 40 MB"


@settings(max_examples=100, deadline=None)
@given(
    st.sets(st.integers(0, 300), max_size=60),
    st.integers(0, 20),
    st.integers(0, 320),
    st.integers(0, 320),
    st.integers(1, 12),
    st.integers(1, 50),
    st.sampled_from([b"v", b"v" * 70_000]),
)
def test_both_ways_find_exactly_what_there_is(offsets, extra, start, end, wanted, width, value):
    there = sorted(offsets)
    log_end = (there[-1] + 1 if there else 0) + extra
    start, end = min(start, log_end), min(end, log_end)
    expected = [one for one in there if start <= one < end]
    log = Log(there, log_end, value)
    forward = ForwardCursor(PLACE, start, end)
    assert log.drain(forward, wanted) == expected[:wanted]
    low, high = forward.scanned
    assert [one for one in expected if low <= one < high] == expected[:wanted]
    log = Log(there, log_end, value)
    backward = BackwardCursor(PLACE, start, end, width)
    newest = expected[::-1][:wanted]
    assert log.drain(backward, wanted) == newest
    low, high = backward.scanned
    assert [one for one in expected if low <= one < high][::-1] == newest


def test_a_record_that_costs_too_much_is_looked_at_by_the_next_look():
    log = Log(list(range(10)), 10)
    cursor = ForwardCursor(PLACE, 0, 10)
    seen: list[int] = []

    def costly(found):
        if found.record.offset == 4:
            raise LookEnded
        seen.append(found.record.offset)

    with pytest.raises(LookEnded):
        cursor.take(log.fetch(0, 10_000), costly, 100, lambda: False)
    assert (seen, cursor.scanned) == ([0, 1, 2, 3], (0, 4))


@pytest.mark.parametrize("damage", ["crc", "length", "cut"])
def test_bytes_that_are_not_sound_are_told_of(damage: str):
    log = Log(list(range(5)), 5)
    raw = bytearray(log.fetch(0, 10_000).records)
    size = len(raw) // 5
    if damage == "crc":
        raw[2 * size + 62] ^= 1
    elif damage == "length":
        raw[2 * size + 57 : 2 * size + 61] = b"\x7f\xff\xff\xff"
    else:
        raw = raw[: 3 * size - 3]
    answer = Fetched(PLACE, memoryview(raw), 5, 0, 5, 5, 0)
    cursor = ForwardCursor(PLACE, 0, 5)
    cursor.take(answer, MAKE, 100, lambda: False)
    found = [row.offset for row in cursor.ready]
    assert found == ([0, 1] if damage == "cut" else [0, 1, 3, 4])
    assert bool(cursor.tally.damage) == (damage != "cut")


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_are_damage_and_no_crash(seed: int):
    drawn = random.Random(seed)
    raw = bytearray(Log(list(range(5)), 5).fetch(0, 10_000).records)
    for _ in range(10):
        raw[drawn.randrange(len(raw))] = drawn.randrange(256)
    answer = Fetched(PLACE, memoryview(raw), 5, 0, 5, 5, 0)
    for cursor in (ForwardCursor(PLACE, 0, 5), BackwardCursor(PLACE, 0, 5, 5)):
        cursor.take(answer, MAKE, 100, lambda: False)
        assert cursor.is_done
