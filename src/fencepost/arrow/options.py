"""What a read may choose: partitions, bounds, limits, and what becomes of lost records.

Frozen plain data that travels in pickles. `fencepost.spark.options` makes it of the texts that
Spark hands over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from fencepost.client.config import ClientConfig
from fencepost.client.metadata import TopicPartition
from fencepost.client.offsets import EARLIEST, LATEST

if TYPE_CHECKING:
    from fencepost.arrow.archives import Archive  # Arrow's file systems, which planning needs not


class Point(Enum):
    """A place in a log known by name."""

    EARLIEST = EARLIEST
    LATEST = LATEST


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for every partition by name; -1 is the end, -2 the beginning."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """The first record at or after a time (ms): one for all partitions, or one for each.

    `or_latest` says what to do where there is no such record: read from the end, or fail.
    """

    common_ms: int | None
    by_partition: Mapping[TopicPartition, int] | None
    or_latest: bool


@dataclass(frozen=True, slots=True)
class BeforeEnd:
    """So many offsets before each partition's end, or its beginning if it has not so many."""

    offsets_count: int


Bound = Point | AtOffsets | AtTimestamps | BeforeEnd


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions: exactly one of the three is set."""

    assigned: tuple[TopicPartition, ...] | None = None
    topics: tuple[str, ...] | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Everything a read may choose."""

    client: ClientConfig
    subscription: Subscription
    start: Bound
    end: Bound
    fail_on_data_loss: bool
    include_headers: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    plain_offsets: bool
    stall_timeout_ms: int
    commit_group: str | None = None
    """The consumer group that is told the query's progress."""
    archive: Archive | None = None
    """Where records are that brokers have deleted (`backfill`)."""
    max_bytes_per_trigger: int | None = None
    """About so many bytes of records, as they are stored, in a micro-batch."""
