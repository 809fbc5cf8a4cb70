"""Which offsets of which partitions can hold what a read wants, so that others are not fetched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fencepost.client.metadata import TopicPartition


@dataclass(slots=True)
class Narrowing:
    """Conditions every matching record meets; starts as "anything"."""

    least_offset: int = 0
    most_offset: int = 2**63 - 1
    least_timestamp_ms: int | None = None
    topics: frozenset[str] | None = None  # None: any
    partitions: frozenset[int] | None = None

    def allows(self, partition: TopicPartition) -> bool:
        """Whether any record of the partition can match."""
        topic_fits = self.topics is None or partition.topic in self.topics
        return topic_fits and (self.partitions is None or partition.partition in self.partitions)

    def at_least(self, offset: int) -> None:
        """No record before `offset` matches."""
        self.least_offset = max(self.least_offset, offset)

    def at_most(self, offset: int) -> None:
        """No record behind `offset` matches."""
        self.most_offset = min(self.most_offset, offset)

    def since(self, time_ms: int) -> None:
        """No record before `time_ms` matches."""
        self.least_timestamp_ms = max(self.least_timestamp_ms or 0, time_ms)

    def of_topics(self, names: frozenset[Any]) -> None:
        """No record of other topics matches."""
        self.topics = names if self.topics is None else self.topics & names

    def of_partitions(self, numbers: frozenset[Any]) -> None:
        """No record of other partitions matches."""
        self.partitions = numbers if self.partitions is None else self.partitions & numbers
