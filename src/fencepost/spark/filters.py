"""What filters on a batch read say about which offsets can match, so that others are not fetched.

Only what narrows safely: comparisons of topic, partition and offset with numbers and texts, and
lower bounds of the timestamp (the broker's time index finds the first record at or after a time; an
upper bound would be wrong, because producers' timestamps need not grow). Spark checks every filter
again on the rows, so narrowing too little is never an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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

from fencepost.client.metadata import TopicPartition


@dataclass(slots=True)
class Narrowing:
    """Conditions every matching record meets; starts as "anything"."""

    least_offset: int = 0
    most_offset: int = 2**63 - 1
    least_timestamp_ms: int | None = None
    topics: frozenset[str] | None = None  # None: any
    partitions: frozenset[int] | None = None

    def add(self, filters: Iterable[Filter]) -> None:
        """Take in filters, all of which hold; those that say nothing useful are passed over."""
        for one in filters:
            attribute: tuple[str, ...] = getattr(one, "attribute", ())
            if len(attribute) != 1:
                continue
            name = attribute[0].lower()
            if name == "offset":
                self._add_offset(one)
            elif name == "topic":
                self.topics = _both(self.topics, _equal_to(one))
            elif name == "partition":
                self.partitions = _both(self.partitions, _equal_to(one))
            elif name == "timestamp":
                self._add_timestamp(one)

    def allows(self, partition: TopicPartition) -> bool:
        """Whether any record of the partition can match."""
        topic_fits = self.topics is None or partition.topic in self.topics
        return topic_fits and (self.partitions is None or partition.partition in self.partitions)

    def _add_offset(self, one: Filter) -> None:
        if isinstance(one, In):
            numbers = [value for value in one.value if type(value) is int]
            if numbers and len(numbers) == len(one.value):
                self._at_least(min(numbers))
                self._at_most(max(numbers))
            return
        value = getattr(one, "value", None)
        if type(value) is not int:
            return
        if isinstance(one, EqualTo | GreaterThanOrEqual):
            self._at_least(value)
        if isinstance(one, EqualTo | LessThanOrEqual):
            self._at_most(value)
        if isinstance(one, GreaterThan):
            self._at_least(value + 1)
        if isinstance(one, LessThan):
            self._at_most(value - 1)

    def _at_least(self, offset: int) -> None:
        self.least_offset = max(self.least_offset, offset)

    def _at_most(self, offset: int) -> None:
        self.most_offset = min(self.most_offset, offset)

    def _add_timestamp(self, one: Filter) -> None:
        value = getattr(one, "value", None)
        bounds = EqualTo | GreaterThan | GreaterThanOrEqual
        if isinstance(one, bounds) and isinstance(value, datetime) and value.tzinfo is not None:
            # Rounded down to a millisecond: Kafka's times have no finer parts.
            since = max(0, int(value.timestamp() * 1000 // 1))
            self.least_timestamp_ms = max(self.least_timestamp_ms or 0, since)


def _equal_to(one: Filter) -> frozenset[Any] | None:
    """The values an equality allows; None for any other filter."""
    if isinstance(one, EqualTo):
        return frozenset([one.value])
    return frozenset(one.value) if isinstance(one, In) else None


def _both(left: frozenset[Any] | None, right: frozenset[Any] | None) -> frozenset[Any] | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right
