"""Where reads begin and end, as callers say it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencepost.arrow import ArgumentError
from fencepost.arrow.bounds import UNITS_MS, parse_bound
from fencepost.arrow.options import AtOffsets, AtTimestamps, BeforeEnd, Point
from fencepost.client.metadata import TopicPartition

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_names_and_distances():
    assert parse_bound("start", "earliest") is Point.EARLIEST
    assert parse_bound("start", " Latest ") is Point.LATEST
    assert parse_bound("start", "-1000 offsets") == BeforeEnd(1000)
    found = parse_bound("start", {"t": {0: 5, "1": "latest", 2: "earliest"}, "u": {0: -1}})
    offsets = {("t", 0): 5, ("t", 1): -1, ("t", 2): -2, ("u", 0): -1}
    assert found == AtOffsets({TopicPartition(*at): offset for at, offset in offsets.items()})


@pytest.mark.parametrize(
    ("value", "ago_ms"),
    [
        (timedelta(minutes=10), 600_000),
        (timedelta(0), 0),
        ("-10 minutes", 600_000),
        ("-2h", 7_200_000),
        ("-1 week", 604_800_000),
    ],
)
def test_times_ago_are_of_this_machines_clock(value: Any, ago_ms: int):
    before = time.time_ns() // 1_000_000
    found = parse_bound("start", value)
    after = time.time_ns() // 1_000_000
    assert isinstance(found, AtTimestamps) and found.or_latest
    assert found.common_ms is not None and before <= found.common_ms + ago_ms <= after
    assert UNITS_MS["week"] == 604_800_000


@given(
    st.datetimes(timezones=st.just(UTC)),
    st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
def test_a_datetime_is_the_first_millisecond_not_before_it(moment: datetime, zone: timezone):
    """The oracle is exact arithmetic; floats would be a millisecond off for some."""
    try:
        moment = moment.astimezone(zone)
    except OverflowError:
        return
    exact = Fraction((moment - EPOCH) // timedelta(microseconds=1), 1000)
    found = parse_bound("start", moment)
    assert isinstance(found, AtTimestamps) and found.common_ms is not None
    assert found.common_ms >= exact and (found.common_ms == 0 or found.common_ms - 1 < exact)


def test_times_by_partition():
    at = datetime(2026, 1, 1, tzinfo=UTC)
    found = parse_bound("start", {"t": {0: at}})
    assert found == AtTimestamps(None, {TopicPartition("t", 0): 1767225600000}, or_latest=True)


@pytest.mark.parametrize(
    "value",
    [
        5,
        -1000,
        None,
        True,
        "",
        "soon",
        "-10 fortnights",
        "-" + "9" * 40 + " offsets",
        b"earliest",
        datetime(2026, 1, 1),
        timedelta(minutes=-1),
        {},
        {"t": 5},
        {"t": {}},
        {5: {0: 1}},
        {"t": {0: -3}},
        {"t": {0: 1.5}},
        {"t": {0: True}},
        {"t": {0: "soon"}},
        {"t": {0: 2**64}},
        {"t": {-1: 5}},
        {"t": {"00": 5}},
        {"t": {2**40: 5}},
        {"t": {0: 5, 1: datetime(2026, 1, 1, tzinfo=UTC)}},
        {"t": {0: datetime(2026, 1, 1)}},
        {"#fencepost": {}, "t": {"0": 5}},
    ],
    ids=repr,
)
def test_wrong_bounds_are_refused_by_name(value: Any):
    with pytest.raises(ArgumentError, match=r"^start=") as raised:
        parse_bound("start", value)
    assert raised.value.condition == "FENCEPOST_INVALID_ARGUMENT"
    assert raised.value.parameters["argument"] == "start"
    assert len(str(raised.value)) < 1000
