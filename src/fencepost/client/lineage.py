"""The leader epochs of every replica's log, as each replica tells them itself.

OffsetForLeaderEpoch is the leader's to answer, so it cannot show how a follower's log differs. A
consumer's Fetch may be sent to any replica, though (KIP-392), and from version 12 on a replica
whose log does not have what the reader claims to have read answers where the two part (KIP-595).
A reader that claims epoch E and the greatest offset there can be is therefore always told the
largest epoch at or below E and where that ends in the log of the replica that was asked. From the
newest epoch back to the log's beginning this gives the replica's whole leader-epoch cache. The
answers hold no records, and nothing changes at the broker.

`find_divergence` compares two such lineages without asking anybody.

A leader whose Fetch is older than version 12 is asked with OffsetForLeaderEpoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from fencepost.client import asking
from fencepost.client.cluster import Cluster
from fencepost.client.cluster_view import ClusterView
from fencepost.client.connection_core import ConnectionCore
from fencepost.client.conversation import Conversation, Exchange
from fencepost.client.errors import BrokerError, ClientError, UnsupportedApi
from fencepost.client.metadata import Node, TopicInfo, TopicPartition
from fencepost.client.offsets import CONSUMER, EPOCH_SPANS_MAX, EpochSpan, finding_epoch_spans
from fencepost.wire.api.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

FIRST_VERSION_WITH_DIVERGENCE = 12
LAST_VERSION_WITH_NAMES = 12
HIGHEST_VERSION = 17
NO_SESSION = -1
OFFSET_MAX = (1 << 63) - 1
EPOCH_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class ReplicaLineage:
    """What one replica's log is made of, oldest epoch first; `error` says why nothing is known.

    A replica that has never had a record has no spans. Offsets are -1 where they are not known.
    `has_older` says that the log has older epochs, which were not asked for.
    """

    broker_id: int
    spans: tuple[EpochSpan, ...] = ()
    high_watermark: int = -1
    error: str | None = None
    has_older: bool = False

    @property
    def start_offset(self) -> int:
        """The first offset there is."""
        return self.spans[0].start_offset if self.spans else -1

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.spans[-1].end_offset if self.spans else -1


class Divergence(NamedTuple):
    """From `offset` on two logs differ: the epochs they have there, -1 where a log has ended."""

    offset: int
    epoch: int
    reference_epoch: int


def replica_lineages(cluster: Cluster, partition: TopicPartition) -> list[ReplicaLineage]:
    """`reading_lineages` of a blocking client."""
    return cluster.run(reading_lineages(cluster, partition))


def reading_lineages(
    view: ClusterView[Any], partition: TopicPartition
) -> Conversation[list[ReplicaLineage]]:
    """The lineage of every replica of a partition, in the order of the assignment.

    The leader is asked last: what a follower has, its leader has had before. Raises UnknownTopic;
    what a single replica does not tell is in its `error`.
    """
    topic = yield from asking.topic(view, partition.topic)
    info = topic.partitions.get(partition.partition)
    if info is None:
        raise BrokerError.of(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition", topic=partition.topic,
            partition=partition.partition,
        )  # fmt: skip
    found: dict[int, ReplicaLineage] = {}
    for broker in sorted(info.replicas, key=lambda id_: id_ == info.leader_id):
        node = view.metadata.nodes.get(broker)
        found[broker] = yield from reading_replica(view, topic, partition.partition, broker, node)
    return [found[broker] for broker in info.replicas]


def reading_replica(
    view: ClusterView[Any],
    topic: TopicInfo,
    partition: int,
    broker: int,
    node: Node | None,
    *,
    spans_max: int = EPOCH_SPANS_MAX,
) -> Conversation[ReplicaLineage]:
    """The lineage of one replica of a partition, which is at `node` (None: it cannot be reached),
    with `spans_max` epochs at most, the newest. Each costs a request, and two or more are needed to
    find the newest. What it does not tell is in the `error`."""
    if node is None:
        return ReplicaLineage(broker, error="the broker is not there: down, fenced or unknown")
    info = topic.partitions[partition]
    where = TopicPartition(topic.name, partition)
    try:
        connection = yield from asking.connect(node)
        try:
            replica = _Replica(connection, where, topic.topic_id)
        except UnsupportedApi:
            if broker != info.leader_id:
                raise
            return (yield from _reading_old_leader(view, where, broker))
        return (yield from replica.lineage(broker, max(info.leader_epoch, 0), spans_max))
    except ClientError as error:
        return ReplicaLineage(broker, error=str(error))


def find_divergence(
    reference: tuple[EpochSpan, ...], spans: tuple[EpochSpan, ...]
) -> Divergence | None:
    """The first offset at which `spans` has another epoch than `reference`, or it has ended there.

    Offsets before the reference's first one are not compared (retention differs by replica). None
    if `spans` has nothing that the reference lacks: it may have less.
    """
    if not spans:
        return None
    if not reference:
        return Divergence(spans[0].start_offset, spans[0].leader_epoch, -1)
    place = 0
    for span in spans:
        offset = max(span.start_offset, reference[0].start_offset)
        while offset < span.end_offset:
            while place < len(reference) and reference[place].end_offset <= offset:
                place += 1
            if place == len(reference):
                return Divergence(offset, span.leader_epoch, -1)
            there = reference[place]
            if there.leader_epoch != span.leader_epoch:
                return Divergence(offset, span.leader_epoch, there.leader_epoch)
            offset = there.end_offset
    return None


def _reading_old_leader(
    view: ClusterView[Any], partition: TopicPartition, broker: int
) -> Conversation[ReplicaLineage]:
    """The lineage of a leader whose Fetch is too old to tell, by OffsetForLeaderEpoch."""
    spans = tuple((yield from finding_epoch_spans(view, partition)))
    led = (yield from asking.topic(view, partition.topic)).partitions[partition.partition]
    if led.leader_id != broker:
        raise ClientError(f"it was asked, and broker {led.leader_id} leads now")
    if led.leader_epoch < 0:
        raise ClientError("before Kafka 2.1 brokers do not tell in which epoch they lead")
    return ReplicaLineage(broker, spans)


class _Replica:
    """Questions to one replica."""

    def __init__(
        self, connection: ConnectionCore, partition: TopicPartition, topic_id: Uuid
    ) -> None:
        self._connection = connection
        self._partition = partition
        self._topic_id = topic_id
        self._last: PartitionData | None = None
        highest = HIGHEST_VERSION if topic_id != Uuid.ZERO else LAST_VERSION_WITH_NAMES
        self._version = connection.version_for(
            FetchRequest, lowest=FIRST_VERSION_WITH_DIVERGENCE, highest=highest
        )

    def lineage(self, broker: int, epoch: int, spans_max: int) -> Conversation[ReplicaLineage]:
        """The epochs that the replica's log has records of, of many the newest; `epoch` is one that
        it may know."""
        newest = yield from self._newest(epoch)
        spans: list[EpochSpan] = []
        has_older = False
        while newest is not None and newest[0] >= 0:
            found, end_offset = newest
            start = self._last.log_start_offset if self._last is not None else 0
            if spans:
                spans[-1] = spans[-1]._replace(start_offset=max(start, end_offset))
            if end_offset <= start and (spans or end_offset < start):
                break
            if len(spans) == spans_max:
                has_older = True
                break
            spans.append(EpochSpan(found, start, end_offset))
            newest = (yield from self._end_of(found - 1)) if found else None
            if newest is not None and newest[0] >= found:
                raise ClientError(
                    f"asked where epoch {found - 1} ends, broker {broker} answered for {newest[0]}"
                )
        high_watermark = self._last.high_watermark if self._last is not None else -1
        return ReplicaLineage(broker, tuple(spans[::-1]), high_watermark, has_older=has_older)

    def _newest(self, epoch: int) -> Conversation[tuple[int, int] | None]:
        """The newest epoch that the replica knows, and where it ends; None if it knows none.

        A replica knows all epochs up to its newest one, in the sense that it has an answer.
        """
        known, unknown = -1, epoch
        answer = None
        while (there := (yield from self._end_of(unknown))) is not None:
            answer = there
            if unknown == EPOCH_MAX:
                return answer
            known, unknown = unknown, min(2 * unknown + 1, EPOCH_MAX)
        while unknown - known > 1:
            middle = (known + unknown) // 2
            there = yield from self._end_of(middle)
            if there is None:
                unknown = middle
            else:
                known, answer = middle, there
        return answer

    def _end_of(self, epoch: int) -> Conversation[tuple[int, int] | None]:
        """The largest epoch at or below this one and its end; None if the log's are all older."""
        where = FetchPartition(
            partition=self._partition.partition,
            fetch_offset=OFFSET_MAX,
            last_fetched_epoch=epoch,
            partition_max_bytes=1,
        )
        request = FetchRequest(
            replica_id=CONSUMER,
            max_bytes=1,
            session_epoch=NO_SESSION,
            topics=[
                FetchTopic(topic=self._partition.topic, topic_id=self._topic_id, partitions=[where])
            ],
        )
        connection = self._connection
        response = yield from Exchange(connection, request, self._version)
        data = self._data(response)
        code = response.error_code or data.error_code
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return None
        if code != ErrorCode.NONE:
            raise BrokerError.of(code, "the replica does not tell", host=connection.address)
        if data.diverging_epoch.end_offset < 0:
            raise ClientError("the answer to Fetch says of no epoch where it ends")
        self._last = data
        return data.diverging_epoch.epoch, data.diverging_epoch.end_offset

    def _data(self, response: FetchResponse) -> PartitionData:
        found = [one for topic in response.responses for one in topic.partitions]
        return found[0] if found else PartitionData(error_code=response.error_code or -1)
