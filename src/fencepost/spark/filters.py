"""What filters on a batch read say about which offsets can match, so that others are not fetched.

Only what narrows safely: comparisons of topic, partition and offset with numbers and texts, and
lower bounds of the timestamp (the broker's time index finds the first record at or after a time; an
upper bound would be wrong, because producers' timestamps need not grow). Spark checks every filter
again on the rows, so narrowing too little is never an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from fencepost.arrow.narrowing import Narrowing


def narrow(narrowing: Narrowing, filters: Iterable[Filter]) -> None:
    """Take in filters, all of which hold; those that say nothing useful are passed over."""
    for one in filters:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        if len(attribute) != 1:
            continue
        name = attribute[0].lower()
        values = _equal_to(one)
        if name == "offset":
            _add_offset(narrowing, one)
        elif name == "topic" and values is not None:
            narrowing.of_topics(values)
        elif name == "partition" and values is not None:
            narrowing.of_partitions(values)
        elif name == "timestamp":
            _add_timestamp(narrowing, one)


def _add_offset(narrowing: Narrowing, one: Filter) -> None:
    if isinstance(one, In):
        numbers = [value for value in one.value if type(value) is int]
        if numbers and len(numbers) == len(one.value):
            narrowing.at_least(min(numbers))
            narrowing.at_most(max(numbers))
        return
    value = getattr(one, "value", None)
    if type(value) is not int:
        return
    if isinstance(one, EqualTo | GreaterThanOrEqual):
        narrowing.at_least(value)
    if isinstance(one, EqualTo | LessThanOrEqual):
        narrowing.at_most(value)
    if isinstance(one, GreaterThan):
        narrowing.at_least(value + 1)
    if isinstance(one, LessThan):
        narrowing.at_most(value - 1)


def _add_timestamp(narrowing: Narrowing, one: Filter) -> None:
    value = getattr(one, "value", None)
    bounds = EqualTo | GreaterThan | GreaterThanOrEqual
    if isinstance(one, bounds) and isinstance(value, datetime) and value.tzinfo is not None:
        # Rounded down to a millisecond: Kafka's times have no finer parts.
        narrowing.since(max(0, int(value.timestamp() * 1000 // 1)))


def _equal_to(one: Filter) -> frozenset[Any] | None:
    """The values an equality allows; None for any other filter."""
    if isinstance(one, EqualTo):
        return frozenset([one.value])
    return frozenset(one.value) if isinstance(one, In) else None
