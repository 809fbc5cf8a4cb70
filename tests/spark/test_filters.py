"""What filters say about offsets."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from fencepost.arrow.narrowing import Narrowing
from fencepost.client.metadata import TopicPartition
from fencepost.spark import filters as pushed

OFFSET = ("offset",)


def narrow(*filters: Filter) -> Narrowing:
    narrowing = Narrowing()
    pushed.narrow(narrowing, filters)
    return narrowing


@pytest.mark.parametrize(
    ("one", "least", "most"),
    [
        (EqualTo(OFFSET, 5), 5, 5),
        (GreaterThan(OFFSET, 5), 6, 2**63 - 1),
        (GreaterThanOrEqual(OFFSET, 5), 5, 2**63 - 1),
        (LessThan(OFFSET, 5), 0, 4),
        (LessThanOrEqual(OFFSET, 5), 0, 5),
        (In(OFFSET, (9, 4, 7)), 4, 9),
        (In(OFFSET, (9, None)), 0, 2**63 - 1),
        (Not(EqualTo(OFFSET, 5)), 0, 2**63 - 1),
        (IsNotNull(OFFSET), 0, 2**63 - 1),
        (EqualTo(("a", "offset"), 5), 0, 2**63 - 1),
        (EqualTo(("value",), b"x"), 0, 2**63 - 1),
    ],
)
def test_offsets(one: Filter, least: int, most: int):
    found = narrow(one)
    assert (found.least_offset, found.most_offset) == (least, most)


def test_topics_and_partitions():
    found = narrow(In(("partition",), (0, 1)), EqualTo(("partition",), 1), EqualTo(("topic",), "t"))
    assert found.allows(TopicPartition("t", 1))
    assert not found.allows(TopicPartition("t", 0))
    assert not found.allows(TopicPartition("s", 1))
    assert narrow().allows(TopicPartition("anything", 9))
    assert not narrow(EqualTo(("topic",), "a"), EqualTo(("topic",), "b")).allows(
        TopicPartition("a", 0)
    )


def test_only_lower_bounds_of_time_narrow():
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    stamp = ("timestamp",)
    since = int(moment.timestamp() * 1000)
    assert narrow(GreaterThan(stamp, moment)).least_timestamp_ms == since
    assert narrow(GreaterThanOrEqual(stamp, moment)).least_timestamp_ms == since
    assert narrow(EqualTo(stamp, moment)).least_timestamp_ms == since
    assert narrow(LessThan(stamp, moment)).least_timestamp_ms is None
    # Without a zone nobody knows which moment it is.
    naive = moment.replace(tzinfo=None)
    assert narrow(GreaterThan(stamp, naive)).least_timestamp_ms is None
