"""Where logs begin, end, and change epoch: ListOffsets and OffsetForLeaderEpoch.

Both ask each partition's leader, naming the leader epoch we believe in, so that a deposed leader
cannot answer (KIP-320). `offsets_for_leader_epochs` is how a reader learns whether what it read is
still in the log: the end offset of the epoch it read in must not lie before its position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fencepost.client import asking
from fencepost.client.cluster import Cluster
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import ClientError
from fencepost.client.leaders import Answered, Asked, asking_leaders, by_topic
from fencepost.client.metadata import TopicPartition
from fencepost.client.retry import Deadline
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fencepost.wire.api.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from fencepost.wire.message import Request

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3  # the record with the highest timestamp (ListOffsets version 7)
EARLIEST_LOCAL = -4  # version 8
LATEST_TIERED = -5  # version 9

_LOWEST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
CONSUMER = -1  # replica id of ordinary clients


class ListedOffset(NamedTuple):
    """An offset found; all -1 when no record has a timestamp at or after the one asked for.

    `timestamp_ms` is -1 for special timestamps, `leader_epoch` -1 where brokers do not know it.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The largest leader epoch at or below the one asked for, and the offset after its last
    record; (-1, -1) when the leader has no such epoch."""

    leader_epoch: int
    end_offset: int


def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    *,
    isolation_level: str | None = None,
    deadline: Deadline | None = None,
) -> dict[TopicPartition, ListedOffset]:
    """`listing_offsets` of a blocking client."""
    how = {"isolation_level": isolation_level}
    return cluster.run(listing_offsets(cluster, timestamps, deadline=deadline, **how))


def listing_offsets(
    view: ClusterView[Any],
    timestamps: Mapping[TopicPartition, int],
    *,
    isolation_level: str | None = None,
    deadline: Deadline | None = None,
) -> Conversation[dict[TopicPartition, ListedOffset]]:
    """The first offset at or after each timestamp (ms), or LATEST, EARLIEST and so on.

    With isolation level read_committed LATEST is the last stable offset. Raises UnsupportedApi
    when a broker is too old for a special timestamp, else as `ask_leaders`.
    """
    level = isolation_level or view.config.isolation_level
    lowest = max((_LOWEST_VERSION.get(value, 1) for value in timestamps.values()), default=1)
    deadline = deadline or view.deadline()

    def build(group: dict[TopicPartition, Asked[int]]) -> Request[Any]:
        return ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=int(level == "read_committed"),
            timeout_ms=int(min(deadline.remaining_ms(), view.config.request_timeout_ms)),
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=partition,
                            current_leader_epoch=asked.leader_epoch,
                            timestamp=asked.question,
                        )
                        for partition, asked in partitions
                    ],
                )
                for topic, partitions in by_topic(group).items()
            ],
        )

    return asking_leaders(
        view,
        timestamps,
        build,
        _read_listed,
        what="ListOffsets",
        lowest=lowest,
        deadline=deadline,
    )


def _read_listed(response: Any) -> Iterator[Answered[ListedOffset]]:
    for topic in response.topics:
        for entry in topic.partitions:
            yield Answered(
                TopicPartition(topic.name, entry.partition_index),
                entry.error_code,
                ListedOffset(entry.offset, entry.timestamp, entry.leader_epoch),
            )


def offsets_for_leader_epochs(
    cluster: Cluster,
    epochs: Mapping[TopicPartition, int],
    *,
    deadline: Deadline | None = None,
) -> dict[TopicPartition, EpochEnd]:
    """`finding_epoch_ends` of a blocking client."""
    return cluster.run(finding_epoch_ends(cluster, epochs, deadline=deadline))


def finding_epoch_ends(
    view: ClusterView[Any],
    epochs: Mapping[TopicPartition, int],
    *,
    deadline: Deadline | None = None,
) -> Conversation[dict[TopicPartition, EpochEnd]]:
    """Where each partition's leader says the given leader epoch ends.

    Needs OffsetForLeaderEpoch version 2 (Kafka 2.1); raises UnsupportedApi without it.
    """

    def build(group: dict[TopicPartition, Asked[int]]) -> Request[Any]:
        return OffsetForLeaderEpochRequest(
            replica_id=CONSUMER,
            topics=[
                OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[
                        OffsetForLeaderPartition(
                            partition=partition,
                            current_leader_epoch=asked.leader_epoch,
                            leader_epoch=asked.question,
                        )
                        for partition, asked in partitions
                    ],
                )
                for topic, partitions in by_topic(group).items()
            ],
        )

    return asking_leaders(
        view,
        epochs,
        build,
        _read_ends,
        what="OffsetForLeaderEpoch",
        lowest=2,
        deadline=deadline,
    )


def _read_ends(response: Any) -> Iterator[Answered[EpochEnd]]:
    for topic in response.topics:
        for entry in topic.partitions:
            yield Answered(
                TopicPartition(topic.topic, entry.partition),
                entry.error_code,
                EpochEnd(entry.leader_epoch, entry.end_offset),
            )


class EpochSpan(NamedTuple):
    """One leader epoch of a log: its records have offsets `start_offset` up to `end_offset`."""

    leader_epoch: int
    start_offset: int
    end_offset: int


# An epoch history longer than this means that the answers make no sense.
EPOCH_SPANS_MAX = 100_000


def epoch_spans(
    cluster: Cluster, partition: TopicPartition, *, deadline: Deadline | None = None
) -> list[EpochSpan]:
    """`finding_epoch_spans` of a blocking client."""
    return cluster.run(finding_epoch_spans(cluster, partition, deadline=deadline))


def finding_epoch_spans(
    view: ClusterView[Any], partition: TopicPartition, *, deadline: Deadline | None = None
) -> Conversation[list[EpochSpan]]:
    """The leader-epoch boundaries of a partition, oldest first, as far as its log reaches.

    Found from the end: the current epoch ends at the log end; asking for the epoch before it
    yields the largest earlier epoch and its end, which is where the later one starts.
    """
    deadline = deadline or view.deadline()
    listed = yield from listing_offsets(view, {partition: EARLIEST}, deadline=deadline)
    start = listed[partition].offset
    spans: list[EpochSpan] = []
    _, epoch = yield from asking.leader_once(view, *partition, deadline)
    while epoch >= 0 and len(spans) < EPOCH_SPANS_MAX:
        ends = yield from finding_epoch_ends(view, {partition: epoch}, deadline=deadline)
        found = ends[partition]
        if found.leader_epoch < 0 or found.end_offset < start:
            break
        if found.leader_epoch > epoch:
            raise ClientError(
                f"asked where epoch {epoch} ends, the leader answered for {found.leader_epoch}",
                topic=partition.topic,
                partition=partition.partition,
            )
        if spans:
            spans[-1] = spans[-1]._replace(start_offset=max(start, found.end_offset))
            if found.end_offset <= start:
                break
        spans.append(EpochSpan(found.leader_epoch, start, found.end_offset))
        epoch = found.leader_epoch - 1
    return spans[::-1]
