"""Batches that gather: when they close, and what is due next."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fencepost.client import accumulator
from fencepost.client.accumulator import OpenBatch, RecordAccumulator
from fencepost.client.config import ClientConfig

PARTITIONS = 8


class Clock:
    """What the accumulator asks of `time`; it stands still."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return 1_700_000_000_000_000_000


class Gathering:
    """An accumulator, with time as the test says."""

    def __init__(self, clock: Clock, *, batch_size: int = 16_384) -> None:
        self.clock = clock
        config = ClientConfig(linger_ms=1_000, batch_size=batch_size)
        self.batches = RecordAccumulator(config)

    def add(self, partition: int | None, at_ms: int) -> Sequence[int]:
        """Add a record so many milliseconds after the start; the partitions it closes."""
        self.clock.now = 1_000.0 + at_ms / 1_000
        *_, closed = self.batches.add("t", PARTITIONS, b"v", None, partition, (), None)
        return partitions_of(closed)

    def linger_until(self, at_ms: int) -> Sequence[int]:
        """It is so late; the partitions whose batches have been open for long enough."""
        self.clock.now = 1_000.0 + at_ms / 1_000
        return partitions_of(self.batches.lingering())

    def due_in_ms(self) -> int | None:
        due_ms = self.batches.next_due_ms()
        return None if due_ms is None else round(due_ms)


def partitions_of(batches: Sequence[OpenBatch]) -> list[int]:
    return [batch.partition.partition for batch in batches]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(accumulator, "time", clock)
    return clock


def test_what_is_due_next_is_the_batch_that_was_opened_first(clock: Clock) -> None:
    gathering = Gathering(clock)
    assert gathering.due_in_ms() is None
    gathering.add(0, 0)
    assert gathering.due_in_ms() == 1_000
    gathering.add(1, 250)
    assert gathering.due_in_ms() == 750
    gathering.add(0, 500)
    assert gathering.due_in_ms() == 500
    assert gathering.linger_until(1_000) == [0]
    assert gathering.due_in_ms() == 250, "the other one"
    assert gathering.linger_until(1_125) == []
    assert gathering.linger_until(1_250) == [1]
    assert gathering.due_in_ms() is None and gathering.batches.is_empty
    gathering.add(2, 5_000)
    assert gathering.due_in_ms() == 1_000, "it is told of the first one again"


def test_a_record_closes_what_has_lingered_without_anybody_asking(clock: Clock) -> None:
    """A loop of `send` never asks what is due."""
    gathering = Gathering(clock)
    assert gathering.add(0, 0) == []
    assert gathering.add(1, 125) == []
    assert gathering.add(1, 875) == []
    assert gathering.add(1, 1_000) == [0]
    assert gathering.add(2, 1_125) == [1]


def test_a_full_batch_leaves_at_once_and_another_one_is_due_next(clock: Clock) -> None:
    gathering = Gathering(clock, batch_size=1)
    assert gathering.add(0, 0) == [0]
    assert gathering.due_in_ms() is None
    gathering = Gathering(clock, batch_size=200)
    gathering.add(0, 0)
    gathering.add(1, 250)
    while not (closed := gathering.add(0, 500)):
        assert gathering.due_in_ms() == 500
    assert closed == [0]
    assert gathering.due_in_ms() == 750


def test_records_without_a_key_stay_with_a_partition_until_its_batch_closes(clock: Clock) -> None:
    gathering = Gathering(clock, batch_size=1)
    assert len({gathering.add(None, 0)[0] for _ in range(60)}) > 1, "each time another one may do"
    gathering = Gathering(clock)
    for _ in range(60):
        assert gathering.add(None, 0) == []
    assert len(gathering.batches.close_all()) == 1
    assert gathering.batches.is_empty
