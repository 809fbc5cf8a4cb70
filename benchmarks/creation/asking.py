"""Topics created, and waited for until every partition can be used, by a client of one thread.

Until a partition is made on the disk its broker says that another one leads it. So a partition is
ready when its leader says where its log ends. That its followers replicate is known from records
with acks=all to some partitions of each leader, the last one among them: all replicas of a new
partition are in sync from the beginning, and every one has to have the record. The last partition
of each leader is asked for alone until it is ready, or asking would cost more than making them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from benchmarks.broker.frames import RefusedError, build_batch
from fencepost.client.connection import Connection
from fencepost.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from fencepost.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fencepost.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from fencepost.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PATIENCE_S: Final = 240.0
POLL_S: Final = 0.02
METADATA_POLL_S: Final = 0.2
ASKED_AT_ONCE: Final = 1_000
WRITTEN_PER_LEADER: Final = 10
LATEST: Final = -1
PRODUCE_VERSION: Final = 9
"""The last one that names topics, and not their ids."""

Partition = tuple[str, int]


class Wanted(NamedTuple):
    """Topics to be created in one request, if the cluster takes them so."""

    topics: int
    partitions: int
    """Of each."""
    replicas: int = 1
    prefix: str = "made"
    """What their names begin with."""

    def __str__(self) -> str:
        """As rows are called."""
        plural = "topic" if self.topics == 1 else "topics"
        return f"{self.topics:,} {plural} of {self.partitions:,}"

    @property
    def names(self) -> list[str]:
        """What the topics are called."""
        return [f"{self.prefix}-{number}" for number in range(self.topics)]


class Pieces(NamedTuple):
    """The requests that create what is wanted."""

    creations: list[CreateTopicsRequest]
    additions: list[CreatePartitionsRequest]

    def __len__(self) -> int:
        return len(self.creations) + len(self.additions)


def pieces_of(wanted: Wanted, records_max: int) -> Pieces:
    """Requests none of which comes to more than `records_max` records of metadata.

    One record is the topic's, and there is one for each partition. A topic that is larger is
    created with as many partitions as may be, and the others are added.
    """
    first = min(wanted.partitions, records_max - 1)
    at_once = max(1, records_max // (first + 1))
    timeout_ms = int(PATIENCE_S * 1000)
    topics = [
        CreatableTopic(name=name, num_partitions=first, replication_factor=wanted.replicas)
        for name in wanted.names
    ]
    creations = [
        CreateTopicsRequest(topics=topics[at : at + at_once], timeout_ms=timeout_ms)
        for at in range(0, len(topics), at_once)
    ]
    additions = []
    for count in range(first, wanted.partitions, records_max):
        grown = min(count + records_max, wanted.partitions)
        additions += [
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name=name, count=grown, assignments=None)],
                timeout_ms=timeout_ms,
            )
            for name in wanted.names
        ]
    return Pieces(creations, additions)


class Asker:
    """Connections to the brokers of a cluster, of which it knows one at first."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = _connect(bootstrap)
        self._leaders: dict[int, Connection] = {}
        self._addresses: dict[int, str] = {}

    def close(self) -> None:
        """No more questions."""
        for one in (self._bootstrap, *self._leaders.values()):
            one.close()

    def create_first(self, wanted: Wanted) -> None:
        """Create it once the brokers have joined. RefusedError if that takes too long."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.create(pieces_of(wanted, wanted.partitions + 1))
            except RefusedError as error:
                _pause(METADATA_POLL_S, deadline_s, f"a topic is created ({error})")

    def create(self, pieces: Pieces) -> None:
        """One request after the other. RefusedError if a topic is not created."""
        for creation in pieces.creations:
            for topic in self._bootstrap.request(creation).topics:
                if topic.error_code:
                    raise RefusedError(f"{topic.name}: {topic.error_code} {topic.error_message}")
        for addition in pieces.additions:
            for result in self._bootstrap.request(addition).results:
                if result.error_code:
                    raise RefusedError(f"{result.name}: {result.error_code} {result.error_message}")

    def wait_until_led(self, wanted: Wanted) -> dict[int, list[Partition]]:
        """Until each partition's leader says where its log ends; by leader, in their order.

        RefusedError if that takes too long.
        """
        deadline_s = time.monotonic() + PATIENCE_S
        led = self._leaders_of(wanted, deadline_s)
        for leader, partitions in led.items():
            waiting = deque(_in_steps(partitions, ASKED_AT_ONCE))
            while self._not_ready(leader, partitions[-1:]):
                _pause(POLL_S, deadline_s, f"broker {leader} leads {partitions[-1]}")
            while waiting:
                left = self._not_ready(leader, waiting.popleft())
                if left:
                    waiting.append(left)
                    _pause(POLL_S, deadline_s, f"broker {leader} leads {left[0]}")
        return led

    def write(self, led: dict[int, list[Partition]]) -> None:
        """One record with acks=all to some partitions of each leader, the last among them.

        RefusedError if that takes too long.
        """
        deadline_s = time.monotonic() + PATIENCE_S
        for leader, partitions in led.items():
            step = max(1, len(partitions) // WRITTEN_PER_LEADER)
            left = partitions[::-step][:WRITTEN_PER_LEADER]
            while left := self._not_written(leader, left):
                _pause(POLL_S, deadline_s, f"a record in {left[0]} is acknowledged")

    def _leaders_of(self, wanted: Wanted, deadline_s: float) -> dict[int, list[Partition]]:
        """As the metadata say, once all replicas are in sync by them."""
        asked = [MetadataRequestTopic(name=name) for name in wanted.names]
        while True:
            answer = self._bootstrap.request(
                MetadataRequest(topics=asked, allow_auto_topic_creation=False)
            )
            self._addresses = {one.node_id: f"{one.host}:{one.port}" for one in answer.brokers}
            led: dict[int, list[Partition]] = {}
            for topic in answer.topics:
                for one in topic.partitions:
                    if one.leader_id >= 0 and len(one.isr_nodes) == len(one.replica_nodes):
                        assert topic.name is not None, "topics were asked for by name"
                        led.setdefault(one.leader_id, []).append((topic.name, one.partition_index))
            if sum(map(len, led.values())) == wanted.topics * wanted.partitions:
                return {leader: sorted(partitions) for leader, partitions in led.items()}
            _pause(METADATA_POLL_S, deadline_s, "all partitions have leaders")

    def _leader(self, node_id: int) -> Connection:
        if node_id not in self._leaders:
            self._leaders[node_id] = _connect(self._addresses[node_id])
        return self._leaders[node_id]

    def _not_ready(self, leader: int, partitions: Iterable[Partition]) -> list[Partition]:
        """Those of which the broker does not say where they end."""
        topics: dict[str, ListOffsetsTopic] = {}
        for name, index in partitions:
            topic = topics.setdefault(name, ListOffsetsTopic(name=name))
            topic.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
        request = ListOffsetsRequest(replica_id=-1, topics=list(topics.values()))
        return [
            (topic.name, one.partition_index)
            for topic in self._leader(leader).request(request).topics
            for one in topic.partitions
            if one.error_code
        ]

    def _not_written(self, leader: int, partitions: Iterable[Partition]) -> list[Partition]:
        """Those of which the broker does not acknowledge a record."""
        topics: dict[str, TopicProduceData] = {}
        for name, index in partitions:
            topic = topics.setdefault(name, TopicProduceData(name=name))
            topic.partition_data.append(PartitionProduceData(index=index, records=build_batch(0)))
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=list(topics.values()))
        return [
            (topic.name, one.index)
            for topic in self._leader(leader).request(request, PRODUCE_VERSION).responses
            for one in topic.partition_responses
            if one.error_code
        ]


def _connect(address: str) -> Connection:
    host, _, port = address.rpartition(":")
    return Connection(host, int(port), timeout_ms=PATIENCE_S * 1000)


def _in_steps(partitions: list[Partition], size: int) -> Iterator[list[Partition]]:
    for at in range(0, len(partitions), size):
        yield partitions[at : at + size]


def _pause(seconds: float, deadline_s: float, what: str) -> None:
    if time.monotonic() > deadline_s:
        raise RefusedError(f"waited {PATIENCE_S:.0f} s in vain until {what}")
    time.sleep(seconds)
