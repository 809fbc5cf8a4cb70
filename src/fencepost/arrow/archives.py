"""What a read asks of an archive; `fencepost.arrow.archive.serving` answers from its files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from fencepost.client.metadata import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa  # planning, which loads this, does without

Ranges = Sequence[tuple[int, int]]
"""Ranges of offsets in order, apart from each other, each without its end."""


@dataclass(frozen=True)
class HeldTopic:
    """One topic of a name in an archive. `partitions` are the offsets that were read, `epochs` the
    leader epochs in which the last of them were seen to be reached, where that is known."""

    topic: str
    topic_id: str
    partitions: Mapping[int, Ranges]
    epochs: Mapping[int, int] = field(default_factory=dict)


class Archive(Protocol):
    """Where records are kept; travels in pickles. All of it raises ArchiveReadError."""

    def topics(self) -> tuple[object, Sequence[HeldTopic]]:
        """What is there now, and something that is equal for as long as that is the same."""
        ...

    def read(
        self, where: TopicPartition, topic_id: str, start: int, end: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """The records of a range that `topics` has, in order, as `batch.columns.SCHEMA` has the
        columns."""
        ...

    def since(self, where: TopicPartition, topic_id: str, time_ms: int, end: int) -> int | None:
        """The first offset below `end` whose record is not older than `time_ms`."""
        ...

    def check(self, held: Iterable[tuple[TopicPartition, str]]) -> None:
        """Raise if files of these partitions are missing."""
        ...


def clipped(held: Ranges, start: int, end: int) -> list[tuple[int, int]]:
    """The parts of ranges from `start` up to `end`."""
    cut = ((max(low, start), min(high, end)) for low, high in held)
    return [(low, high) for low, high in cut if low < high]


def held_of(archive: Archive, where: TopicPartition, topic_id: str) -> Ranges:
    """What the archive has now of a partition of the topic with this id. ArchiveReadError."""
    _, topics = archive.topics()
    for one in topics:
        if (one.topic, one.topic_id) == (where.topic, topic_id):
            return one.partitions.get(where.partition, ())
    return ()
