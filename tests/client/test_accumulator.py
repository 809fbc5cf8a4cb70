"""Batches that gather: when they close, and what is due next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fencepost.batch.record_size import size_bound
from fencepost.client import accumulator
from fencepost.client.accumulator import OpenBatch, RecordAccumulator
from fencepost.client.config import ClientConfig
from fencepost.client.errors import ClientError

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


def sizes_of(config: ClientConfig, values: Sequence[bytes], partition: int | None = 0) -> list[Any]:
    """The values of each batch, in the order in which they leave."""
    batches = RecordAccumulator(config)
    values_of: dict[OpenBatch, list[bytes]] = {}
    for value in values:
        batch, index, _ = batches.add("t", PARTITIONS, value, None, partition, (), 1)
        values_of.setdefault(batch, []).append(value)
        assert len(values_of[batch]) == index + 1
    assert len(batches.close_all()) <= 1
    return [[len(value) for value in batch] for batch in values_of.values()]


@pytest.mark.parametrize("partition", [0, None])
def test_a_record_larger_than_a_batch_goes_alone(partition: int | None) -> None:
    """As of Kafka's producer: it does not swell a batch that is open to more than brokers take."""
    config = ClientConfig(linger_ms=1_000, batch_size=1_000)
    sizes = [300, 300, 300, 5_000, 300, 990, 20]
    values = [b"x" * size for size in sizes]
    assert sizes_of(config, values, partition) == [[300, 300, 300], [5_000], [300], [990], [20]]


def test_records_without_a_key_leave_nothing_behind_when_a_batch_is_full() -> None:
    batches = RecordAccumulator(ClientConfig(linger_ms=1_000, batch_size=1_000))
    closed = [batches.add("t", 8, b"x" * 300, None, None, (), 1)[2] for _ in range(3_000)]
    assert {batch.count for some in closed for batch in some} == {3}
    assert len(batches.close_all()) == 1, "the next batch alone is open, not one in each partition"


@pytest.mark.parametrize("setting", ["max_request_size", "buffer_memory"])
def test_a_record_may_be_as_large_as_kafkas_producer_takes_it(setting: str) -> None:
    headers = [("name", b"h" * 40), ("ü", None)]
    key = b"k" * 60
    bound = size_bound(key, b"v" * 400, headers)
    config = ClientConfig(batch_size=100, **{setting: bound})
    batches = RecordAccumulator(config)
    batches.add("t", PARTITIONS, b"v" * 400, key, 3, headers, 1)
    with pytest.raises(ClientError) as caught:
        batches.add("t", PARTITIONS, b"v" * 401, key, 3, headers, 1)
    name = setting.replace("_", ".")
    said = f"a record of {bound + 1} bytes (key b'{'k' * 40}'...) exceeds {name}={bound}"
    assert said in str(caught.value)
    assert (caught.value.topic, caught.value.partition) == ("t", 3)
    assert batches.is_empty


def test_room_for_a_batch_is_no_room_for_a_record_that_may_not_be_sent() -> None:
    batches = RecordAccumulator(ClientConfig(batch_size=10_000, max_request_size=1_000))
    with pytest.raises(ClientError, match=r"max\.request\.size=1000"):
        batches.add("t", PARTITIONS, b"v" * 990, None, 0, (), 1)
    with pytest.raises(ClientError, match=r"no key"):
        batches.add("t", PARTITIONS, None, None, 0, [("n" * 300, None)] * 4, 1)
