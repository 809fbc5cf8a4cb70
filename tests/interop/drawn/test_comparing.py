"""What is compared, and how differences are told: planted ones are found, and others are not."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.batch.records import build_batch
from fencepost.wire.api.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from fencepost.wire.api.init_producer_id import InitProducerIdResponse
from fencepost.wire.api.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

from .comparing import SEED, Settling, Side, Step, compare
from .drawing import own_name


def sides() -> list[Side]:
    """Two that are never connected: the steps here have their answers with them."""
    return [Side("ours", "127.0.0.1", 0), Side("theirs", "127.0.0.1", 0)]


def told(ours: Any, theirs: Any) -> Step:
    """A step that each side answers so."""
    return lambda side: side.observe(ours if side.name == "ours" else theirs)


def produced(**fields: Any) -> ProduceResponse:
    answer = PartitionProduceResponse(**fields)
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[answer])])


def fetched(*partitions: PartitionData) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=list(partitions))])


def find(draw: Callable[[random.Random], list[Step]], alone: str = "0") -> str:
    """What `compare` says of one history; empty if it finds nothing."""
    try:
        compare(sides(), draw, seconds=0, alone=alone)
    except AssertionError as found:
        return str(found)
    return ""


def test_a_planted_difference_is_found_and_named() -> None:
    same = told(produced(index=0), produced(index=0))
    planted = told(produced(index=0, error_code=7), produced(index=0, error_code=6))
    words = find(lambda _: [same, planted, same], alone="298")
    assert "1 histories, 1 kinds of difference (ours / theirs)" in words
    assert f"history {SEED}:298, step 1:" in words
    assert ".responses[0].partition_responses[0].error_code: 7 / 6" in words


def test_what_brokers_choose_is_compared_by_its_order() -> None:
    first = told(InitProducerIdResponse(producer_id=7), InitProducerIdResponse(producer_id=4000))
    second = told(InitProducerIdResponse(producer_id=8), InitProducerIdResponse(producer_id=4001))
    again = told(InitProducerIdResponse(producer_id=7), InitProducerIdResponse(producer_id=4001))
    assert not find(lambda _: [first, second, first])
    assert ".producer_id: 'producer_id 0' / 'producer_id 1'" in find(
        lambda _: [first, second, again]
    )
    none = told(InitProducerIdResponse(producer_id=-1), InitProducerIdResponse(producer_id=5))
    assert ".producer_id: -1 / 'producer_id 0'" in find(lambda _: [none])


def test_what_is_no_difference() -> None:
    zero, one = PartitionData(partition_index=0), PartitionData(partition_index=1)
    assert not find(lambda _: [told(fetched(zero, one), fetched(one, zero))])
    waited = FetchResponse(throttle_time_ms=5)
    assert not find(lambda _: [told(waited, FetchResponse())])
    unforeseen = told(produced(index=0, error_code=42), produced(index=0, error_code=-1))
    assert not find(lambda _: [unforeseen])
    assert find(
        lambda _: [told(produced(index=0, error_code=-1), produced(index=0, error_code=42))]
    ), "only Apache Kafka may fail so"


def test_records_are_compared() -> None:
    def holding(value: bytes, **stamps: Any) -> FetchResponse:
        batch = build_batch([(b"k", value)], timestamp_ms=1000, **stamps)
        return fetched(PartitionData(partition_index=0, records=bytes(batch)))

    assert not find(lambda _: [told(holding(b"v"), holding(b"v"))])
    assert "b'v'" in find(lambda _: [told(holding(b"v"), holding(b"w"))])
    assert find(lambda _: [told(holding(b"v"), holding(b"v", compression="gzip"))])


def test_each_kind_is_told_once() -> None:
    codes = [(7, 6), (7, 6), (3, 0)]

    def draw(rng: random.Random) -> list[Step]:
        ours, theirs = rng.choice(codes)
        return [told(produced(index=0, error_code=ours), produced(index=0, error_code=theirs))]

    with pytest.raises(AssertionError) as found:
        compare(sides(), draw, seconds=0.2, alone="")
    assert re.search(r"[0-9]+ histories, 2 kinds of difference", str(found.value))
    assert str(found.value).count("history ") == 2


def test_a_settling_step_waits_for_both_to_be_alike() -> None:
    asked = {"ours": 0, "theirs": 0}

    class Counting(Settling):
        """Theirs is there at once, ours when it is asked for the third time."""

        def __call__(self, side: Side) -> Any:
            asked[side.name] += 1
            return side.name == "theirs" or asked[side.name] == 3

    step = Counting("Counting", lambda _: pytest.fail("no request is sent"))
    assert not find(lambda _: [step])
    assert asked == {"ours": 3, "theirs": 3}


def test_a_history_is_a_function_of_its_seed() -> None:
    drawn: list[str] = []

    def draw(rng: random.Random) -> list[Step]:
        drawn.append(own_name(rng, "history"))
        return []

    assert not find(draw, alone="5")
    assert not find(draw, alone="5")
    assert not find(draw, alone="6")
    assert drawn[0] == drawn[1] != drawn[2]
