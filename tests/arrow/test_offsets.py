"""Offsets as JSON: stable texts, both formats."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fencepost.arrow.offsets import EXTRA, Position, StreamOffset
from fencepost.client.metadata import TopicPartition

P = TopicPartition


def test_sparks_own_format_is_read_and_written():
    text = '{"t":{"0":40,"10":7,"2":150}}'
    offset = StreamOffset.from_json(json.loads(text))
    assert offset.positions == {P("t", 0): (40, -1), P("t", 2): (150, -1), P("t", 10): (7, -1)}
    assert offset.topic_ids == {}
    assert json.dumps(offset.to_json(), separators=(",", ":")) == text


def test_ids_epochs_and_beginnings():
    offset = StreamOffset(
        {P("b", 1): Position(5, 3), P("b", 0): Position(6), P("a", 0): Position(1, 0)},
        {"b": "idB", "a": "idA"},
        {P("b", 1): 2},
    )
    assert json.dumps(offset.to_json()) == (
        '{"#fencepost": {"a": {"epochs": {"0": 0}, "id": "idA"}, '
        '"b": {"epochs": {"1": 3}, "from": {"1": 2}, "id": "idB"}}, '
        '"a": {"0": 1}, "b": {"0": 6, "1": 5}}'
    )
    assert json.dumps(offset.to_json(plain=True)) == '{"a": {"0": 1}, "b": {"0": 6, "1": 5}}'


def test_no_topic_can_be_named_like_the_extra_key():
    assert not EXTRA.replace("#", "x").startswith("#")
    assert EXTRA[0] not in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"


topics = st.text("abcXYZ019._-", min_size=1, max_size=8)
partitions = st.builds(P, topics, st.integers(0, 2000))
positions = st.builds(Position, st.integers(0, 2**63 - 1), st.integers(-1, 2**31 - 1))


@settings(deadline=None)  # machines differ
@given(st.dictionaries(partitions, positions, max_size=12), st.randoms())
def test_equal_offsets_are_equal_texts_and_come_back(found: dict[P, Position], rng: Any):
    ids = {partition.topic: f"id-{partition.topic}" for partition in found}
    begins = {partition: 1 for partition in found if partition.partition % 3 == 0}
    offset = StreamOffset(found, ids, begins)
    shuffled = list(found.items())
    rng.shuffle(shuffled)
    again = StreamOffset(dict(shuffled), dict(reversed(ids.items())), begins)
    text = json.dumps(offset.to_json())
    assert json.dumps(again.to_json()) == text
    back = StreamOffset.from_json(json.loads(text))
    assert (back.positions, back.topic_ids, back.begins) == (found, ids, begins)
    # Spark stores the text and hands it back parsed: written again it must not have changed.
    assert json.dumps(back.to_json()) == text


@pytest.mark.parametrize(
    "text",
    [
        '{"t":{"0":-1}}',
        '{"t":{"0":"5"}}',
        '{"t":{"zero":5}}',
        '{"t":{"0":true}}',
        '{"t":5}',
        '{"#fencepost":5}',
        '{"#fencepost":{"t":5}}',
        '{"#fencepost":{"t":{"epochs":{"0":"x"}}},"t":{"0":1}}',
        '{"#fencepost":{"t":{"epochs":{"0":-2}}},"t":{"0":1}}',
        '{"#fencepost":{"t":{"epochs":{"0":2147483648}}},"t":{"0":1}}',
        '{"#fencepost":{"t":{"from":{"0":-7}}},"t":{"0":1}}',
        '{"#fencepost":{"t":{"id":["x"]}},"t":{"0":1}}',
        '{"t":{"0":9223372036854775808}}',
        '{"t":{"2147483648":1}}',
        # Other spellings of a number, which would name a partition twice.
        '{"t":{"0":1,"00":2}}',
        '{"t":{"\u0663":1}}',
        '{"t":{"' + "9" * 5_000 + '":1}}',
        "[]",
        "17",
        "null",
    ],
)
def test_anything_else_is_refused(text: str):
    with pytest.raises(ValueError):
        StreamOffset.from_json(json.loads(text))
