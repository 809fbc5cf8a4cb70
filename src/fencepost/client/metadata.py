"""What a client believes about a cluster: nodes, topics, leaders and their epochs.

Plain data and one rule, no I/O. The rule (KIP-320): brokers learn of changes at different times, so
for a partition of the *same* topic id an answer with an older leader epoch than the one known is
out of date and does not replace it. A new topic id means the topic was recreated and replaces all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from fencepost.wire.api.metadata import MetadataResponse, MetadataResponseTopic
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid


class TopicPartition(NamedTuple):
    """One partition of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class CommittedOffset(NamedTuple):
    """A group's position in a partition: next offset, epoch of the record before it (or -1)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class Node(NamedTuple):
    """A broker's advertised endpoint."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


class PartitionInfo(NamedTuple):
    """A partition as brokers describe it; `leader_id` is -1 while it has no leader."""

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    error_code: int = 0


class HasReplicas(Protocol):
    """A partition as far as it names replicas, by broker, and those of them in sync."""

    @property
    def replicas(self) -> Sequence[int]: ...

    @property
    def isr(self) -> Sequence[int]: ...


def is_under_replicated(one: HasReplicas) -> bool:
    """Whether a replica of the partition is not in sync."""
    return len(one.isr) < len(one.replicas)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as brokers describe it; without partitions when `error_code` is not 0."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: dict[int, PartitionInfo]
    error_code: int = 0

    @property
    def partition_ids(self) -> list[int]:
        return sorted(self.partitions)


@dataclass(slots=True)
class Metadata:
    """The cache: `update` from responses, read by attribute."""

    cluster_id: str | None = None
    controller_id: int = -1
    nodes: dict[int, Node] = field(default_factory=dict)
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    names_by_id: dict[Uuid, str] = field(default_factory=dict)

    def update(self, response: MetadataResponse) -> list[TopicInfo]:
        """Take in a response; returns its topics, with stale partitions already put right."""
        self.cluster_id = response.cluster_id or self.cluster_id
        self.controller_id = response.controller_id
        if response.brokers:
            self.nodes = {
                broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack)
                for broker in response.brokers
            }
        answered = []
        for topic in response.topics:
            name = topic.name or self.names_by_id.get(Uuid(topic.topic_id), "")
            info = _topic_info(name, topic, self.topics.get(name))
            answered.append(info)
            if info.error_code == ErrorCode.NONE:
                self.remember(info)
            elif name:
                self.forget([name])
        return answered

    def remember(self, info: TopicInfo) -> None:
        """Put a topic into the cache, replacing an earlier identity of its name."""
        old = self.topics.get(info.name)
        if old is not None and old.topic_id != info.topic_id:
            self.names_by_id.pop(old.topic_id, None)
        self.topics[info.name] = info
        if info.topic_id != Uuid.ZERO:
            self.names_by_id[info.topic_id] = info.name

    def forget(self, names: Iterable[str]) -> None:
        """Drop topics, so that the next question about them goes to a broker."""
        for name in names:
            old = self.topics.pop(name, None)
            if old is not None:
                self.names_by_id.pop(old.topic_id, None)


def _topic_info(name: str, topic: MetadataResponseTopic, known: TopicInfo | None) -> TopicInfo:
    topic_id = Uuid(topic.topic_id)
    earlier = known.partitions if known is not None and known.topic_id == topic_id else {}
    partitions = {}
    for entry in topic.partitions:
        info = PartitionInfo(  # by place: by name it takes twice the time
            entry.partition_index,
            entry.leader_id,
            entry.leader_epoch,
            tuple(entry.replica_nodes),
            tuple(entry.isr_nodes),
            tuple(entry.offline_replicas),
            entry.error_code,
        )
        before = earlier.get(info.partition)
        if before is not None and before.leader_epoch > info.leader_epoch >= 0:
            info = before
        partitions[info.partition] = info
    return TopicInfo(name, topic_id, topic.is_internal, partitions, topic.error_code)
