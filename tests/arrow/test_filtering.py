"""Filters: what is read through them is what Python finds in all rows, and less is fetched."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import fencepost.arrow
from fencepost.arrow import ArgumentError
from fencepost.arrow.filtering import parse_filters
from fencepost.batch.columns import SCHEMA
from fencepost.batch.records import build_batch

from ..client.fake_cluster import FakeCluster
from .conftest import Properties

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, values: value in values,
    "not in": lambda value, values: value not in values,
}
VALUES: dict[str, Any] = {
    "key": st.sampled_from([b"a", "b", b"\xff", "", "c"]),
    "value": st.sampled_from([b"0", "7", b"19", "2"]),
    "topic": st.sampled_from(["t", "u", "", "s"]),
    "partition": st.sampled_from([0, 1, 2, -1, 2**40]),
    "offset": st.sampled_from([-1, 0, 3, 9, 10, 19, 20, 2**62]),
    "timestamp": st.integers(-3, 30).map(
        lambda half_ms: EPOCH + timedelta(microseconds=1_000_000 + 500 * half_ms)
    ),
    "timestampType": st.sampled_from([-1, 0, 1]),
}


@st.composite
def terms(draw: Any) -> tuple[str, str, Any]:
    column = draw(st.sampled_from(sorted(VALUES)))
    test = draw(st.sampled_from(sorted(TESTS)))
    if test in ("in", "not in"):
        return column, test, draw(st.lists(VALUES[column], max_size=3))
    return column, test, draw(VALUES[column])


def fill(fake: FakeCluster) -> None:
    """Ten batches of a topic's partitions each, whose times go up and down."""
    fake.create_topic("u", 1)
    for topic, partition, keys in (("t", 0, [b"a", None]), ("t", 1, [b"b", b"c"]), ("u", 0, [b""])):
        for number in range(10):
            items = [(key, str(number + at).encode()) for at, key in enumerate(keys)]
            time_ms = 1000 + (number * 7) % 11
            fake.partition(topic, partition).append(bytes(build_batch(items, timestamp_ms=time_ms)))


def passes(row: dict[str, Any], term: tuple[str, str, Any]) -> bool:
    column, test, value = term
    found = row[column]
    if found is None:
        return False
    if column in ("key", "value"):
        several = test in ("in", "not in")
        as_bytes = [one.encode() if isinstance(one, str) else one for one in
                    (value if several else [value])]  # fmt: skip
        value = as_bytes if several else as_bytes[0]
    return bool(TESTS[test](found, value))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(any_of=st.lists(st.lists(terms(), min_size=1, max_size=3), min_size=1, max_size=2))
def test_filters_give_the_rows_that_python_finds(
    any_of: list[list[tuple[str, str, Any]]], fake: FakeCluster, servers: Properties
):
    if "u" not in fake.topics:
        fill(fake)
    everything = fencepost.arrow.read(servers, topics=["t", "u"]).to_pylist()
    assert len(everything) == 50
    expected = [row for row in everything if any(all(passes(row, t) for t in a) for a in any_of)]
    given_as = any_of[0] if len(any_of) == 1 else any_of
    found = fencepost.arrow.read(servers, topics=["t", "u"], filters=given_as)
    assert found.to_pylist() == expected
    few = fencepost.arrow.read(
        servers, topics=["t", "u"], filters=given_as, columns=["timestampType", "offset"]
    )
    assert few.to_pylist() == [
        {name: row[name] for name in ("timestampType", "offset")} for row in expected
    ]


def test_filters_narrow_what_is_fetched(fake: FakeCluster, servers: Properties):
    fill(fake)

    def ranges(*any_of: Any) -> list[tuple[str, int, int]]:
        scan = fencepost.arrow.scan(servers, topics=["t", "u"], filters=list(any_of))
        return [(str(one.partition), one.start, one.end) for one in scan.ranges]

    assert ranges(("offset", ">=", 4), ("offset", "<", 9), ("topic", "=", "u")) == [("u-0", 4, 9)]
    assert ranges(("partition", "in", [1, 7])) == [("t-1", 0, 20)]
    assert ranges([("offset", "=", 3)], [("offset", "in", [5, 7])], [("offset", ">", 15)]) == [
        ("t-0", 3, 20),
        ("t-1", 3, 20),
        ("u-0", 3, 10),
    ]
    assert ranges([("topic", "=", "u")], [("topic", "=", "t"), ("partition", "=", 1)]) == [
        ("t-0", 0, 20),
        ("t-1", 0, 20),
        ("u-0", 0, 10),
    ]
    # 1000 + 7 n % 11 is first 1010 at the batch of n = 3, and 1011 nowhere.
    at = EPOCH + timedelta(milliseconds=1010)
    assert ranges(("timestamp", ">=", at), ("topic", "=", "u")) == [("u-0", 3, 10)]
    assert ranges(("timestamp", ">", at + timedelta(milliseconds=1))) == []
    assert ranges(("timestamp", "<", EPOCH), ("topic", "=", "u")) == [("u-0", 0, 10)]
    assert ranges(("offset", "<", 0)) == []
    everything = [("t-0", 0, 20), ("t-1", 0, 20), ("u-0", 0, 10)]
    assert ranges([("topic", "=", "u")], [("partition", "=", 1)]) == everything
    for column, values in (("timestamp", [at]), ("offset", [3]), ("topic", ["t"])):
        assert ranges((column, "not in", values)) == everything


def test_a_null_passes_no_comparison(fake: FakeCluster, servers: Properties):
    fill(fake)
    for term in (("key", "not in", [b"x"]), ("key", "!=", b"x"), ("key", ">=", b"")):
        found = fencepost.arrow.read(servers, assign={"t": [0]}, filters=[term])
        assert found["key"].to_pylist() == [b"a"] * 10


def test_text_columns_are_compared_as_text(fake: FakeCluster, servers: Properties):
    fill(fake)
    for value in ("b", b"b"):
        filters = [("key", "=", value)]
        if isinstance(value, bytes):
            with pytest.raises(ArgumentError, match="must be a text"):
                fencepost.arrow.read(servers, topics="t", text="key", filters=filters)
            continue
        found = fencepost.arrow.read(servers, topics="t", text="key", filters=filters)
        assert set(found["key"].to_pylist()) == {"b"} and found.num_rows == 10


def test_expressions_are_applied_and_decode_what_they_need():
    found = parse_filters((pc.field("offset") > 5) & pc.field("key").is_valid(), SCHEMA)
    assert found.columns == {"offset", "key"}
    assert found.narrowing.least_offset == 0


def test_an_expression_may_need_columns_that_are_not_read(fake: FakeCluster, servers: Properties):
    fill(fake)
    text = pc.match_substring(pc.field("value"), "1")
    found = fencepost.arrow.read(servers, topics="u", text=True, columns=["offset"], filters=text)
    assert found.to_pylist() == [{"offset": 1}]
    nested = pc.list_value_length(pc.field("headers")).is_null() & (pc.field("offset") > 7)
    found = fencepost.arrow.read(servers, topics="u", columns=["offset"], filters=nested)
    assert found["offset"].to_pylist() == [8, 9]
