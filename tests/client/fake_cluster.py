"""A cluster of fake brokers over one set of in-memory logs, with faults on demand.

It keeps to what Kafka's brokers do, as far as clients can see it: leader epochs and fencing, epoch
caches and divergence, producer sequences with a window of five batches, topic ids. The contract
suite runs against it and against served brokers. Unlike those it can move leaders, cut logs and
lose answers at a chosen moment.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fencepost.batch.header import BatchHeader, read_header, stamp
from fencepost.wire.api.create_topics import CreatableTopicResult, CreateTopicsResponse
from fencepost.wire.api.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from fencepost.wire.api.describe_configs import DescribeConfigsResponse, DescribeConfigsResult
from fencepost.wire.api.fetch import (
    EpochEndOffset as Diverging,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from fencepost.wire.api.init_producer_id import InitProducerIdResponse
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from fencepost.wire.api.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from fencepost.wire.api.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from fencepost.wire.api.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from fencepost.wire.errors import ErrorCode as E
from fencepost.wire.types import Uuid

from .fake_broker import FakeBroker

VERSIONS = {
    0: (3, 13),
    1: (4, 17),
    2: (1, 10),
    3: (0, 13),
    19: (2, 7),
    20: (1, 6),
    22: (0, 5),
    23: (2, 4),
}
DROP = "drop"  # close the connection instead of answering, nothing done
DROP_AFTER = "drop after"  # do it, then close the connection instead of answering


@dataclass
class AppendedAndAnswered:
    """A fault: the batch is appended, and answered with an error all the same."""

    error_code: int


Fault = Callable[[int, str, int, BatchHeader], "E | str | None"]


@dataclass
class FakePartition:
    """One log. `epochs` is the leader-epoch cache."""

    leader: int
    epoch: int = 0
    start_offset: int = 0
    batches: list[bytes] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    producers: dict[int, tuple[int, deque[tuple[int, int, int]]]] = field(default_factory=dict)
    followers: dict[int, FakePartition] = field(default_factory=dict)
    """Logs of other brokers that consumers may fetch from (KIP-392)."""

    @property
    def end_offset(self) -> int:
        return read_header(self.batches[-1]).next_offset if self.batches else self.start_offset

    def append(self, batch: bytes) -> tuple[int, int]:
        """(error code, base offset); duplicates give the offset they have."""
        header = read_header(batch)
        if header.has_producer_id:
            code, known = self._check_sequence(header)
            if code != E.NONE or known >= 0:
                return code, known
        base = self.end_offset
        stamped = bytearray(batch)
        stamp(stamped, 0, base_offset=base, leader_epoch=self.epoch)
        self.batches.append(bytes(stamped))
        if header.has_producer_id:
            epoch, window = self.producers.get(header.producer_id, (-1, deque(maxlen=5)))
            if epoch != header.producer_epoch:
                window = deque(maxlen=5)
            window.append((header.base_sequence, header.last_sequence, base))
            self.producers[header.producer_id] = (header.producer_epoch, window)
        return E.NONE, base

    def _check_sequence(self, header: BatchHeader) -> tuple[int, int]:
        known = self.producers.get(header.producer_id)
        if known is None:
            return E.NONE, -1  # Kafka takes any first sequence of an unknown producer
        epoch, window = known
        if header.producer_epoch < epoch:
            return E.INVALID_PRODUCER_EPOCH, -1
        if header.producer_epoch > epoch:
            first = header.base_sequence == 0
            return (E.NONE if first else E.OUT_OF_ORDER_SEQUENCE_NUMBER), -1
        for first, last, base in window:
            if (first, last) == (header.base_sequence, header.last_sequence):
                return E.NONE, base
        expected = (window[-1][1] + 1) % 2**31
        in_order = header.base_sequence == expected
        return (E.NONE if in_order else E.OUT_OF_ORDER_SEQUENCE_NUMBER), -1

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Kafka's endOffsetFor."""
        if epoch == self.epochs[-1][0]:
            return epoch, self.end_offset
        if epoch > self.epochs[-1][0] or epoch < 0:
            return -1, -1
        if epoch < self.epochs[0][0]:
            return epoch, self.epochs[0][1]
        floor = max(known for known, _ in self.epochs if known <= epoch)
        return floor, min(start for known, start in self.epochs if known > epoch)

    def elect(self, leader: int, *, cut_to: int | None = None) -> None:
        """A new leader, which has the log up to `cut_to` only (an unclean election)."""
        if cut_to is not None:
            self.batches = [b for b in self.batches if read_header(b).next_offset <= cut_to]
            self.epochs = [entry for entry in self.epochs if entry[1] < cut_to] or [(0, 0)]
        self.leader = leader
        self.epoch += 1
        self.epochs = [entry for entry in self.epochs if entry[1] < self.end_offset]
        self.epochs.append((self.epoch, self.end_offset))

    def delete_before(self, offset: int) -> None:
        """Retention."""
        self.start_offset = offset
        self.batches = [b for b in self.batches if read_header(b).next_offset > offset]


@dataclass
class FakeTopic:
    topic_id: Uuid
    partitions: list[FakePartition]


class FakeCluster:
    """Brokers 1 to n; a context manager. `fault` is asked for every batch produced."""

    def __init__(self, brokers: int = 1) -> None:
        self.topics: dict[str, FakeTopic] = {}
        self.fault: Fault = lambda broker, topic, partition, header: None
        self.lock = threading.RLock()
        self._next_producer_id = 1000
        self._next_topic = 1
        self.brokers = {
            node: FakeBroker(
                lambda request, version, _, node=node: self._answer(node, request, version),
                VERSIONS,
            )
            for node in range(1, brokers + 1)
        }

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(self, *exc: object) -> None:
        for broker in self.brokers.values():
            broker.close()

    def create_topic(self, name: str, partitions: int = 1) -> FakeTopic:
        """A topic with a new id, led by the brokers in turn."""
        with self.lock:
            nodes = list(self.brokers)
            self.topics[name] = FakeTopic(
                Uuid(self._next_topic.to_bytes(16, "big")),
                [FakePartition(nodes[index % len(nodes)]) for index in range(partitions)],
            )
            self._next_topic += 1
            return self.topics[name]

    def partition(self, topic: str, index: int = 0) -> FakePartition:
        return self.topics[topic].partitions[index]

    # -- requests --------------------------------------------------------------------------------

    def _answer(self, node: int, request: Any, version: int) -> Any:
        name = type(request).__name__
        if name == "ApiVersionsRequest":
            return NotImplemented
        handler = {
            "MetadataRequest": self._on_metadata,
            "ProduceRequest": self._on_produce,
            "InitProducerIdRequest": self._on_init_producer_id,
            "ListOffsetsRequest": self._on_list_offsets,
            "OffsetForLeaderEpochRequest": self._on_offset_for_leader_epoch,
            "FetchRequest": self._on_fetch,
            "CreateTopicsRequest": self._on_create_topics,
            "DeleteTopicsRequest": self._on_delete_topics,
            "DescribeConfigsRequest": self._on_describe_configs,
        }[name]
        with self.lock:
            return handler(node, request, version)

    def _on_metadata(self, node: int, request: Any, version: int) -> Any:
        names = list(self.topics) if request.topics is None else [t.name for t in request.topics]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=key, host="127.0.0.1", port=broker.port)
                for key, broker in self.brokers.items()
            ],
            cluster_id="fake",
            controller_id=min(self.brokers),
            topics=[self._describe(name) for name in names],
        )

    def _describe(self, name: str) -> MetadataResponseTopic:
        topic = self.topics.get(name)
        if topic is None:
            return MetadataResponseTopic(error_code=E.UNKNOWN_TOPIC_OR_PARTITION, name=name)
        return MetadataResponseTopic(
            name=name,
            topic_id=topic.topic_id,
            is_internal=name.startswith("__"),
            partitions=[
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=partition.leader,
                    leader_epoch=partition.epoch,
                    replica_nodes=list(self.brokers),
                    isr_nodes=list(self.brokers),
                )
                for index, partition in enumerate(topic.partitions)
            ],
        )

    def _find(self, node: int, topic: str, index: int, epoch: int) -> tuple[int, Any]:
        """The partition if `node` leads it in `epoch` (-1: any), else an error code."""
        known = self.topics.get(topic)
        if known is None or index >= len(known.partitions):
            return E.UNKNOWN_TOPIC_OR_PARTITION, None
        partition = known.partitions[index]
        if 0 <= epoch < partition.epoch:
            return E.FENCED_LEADER_EPOCH, None
        if epoch > partition.epoch:
            return E.UNKNOWN_LEADER_EPOCH, None
        if partition.leader != node:
            return E.NOT_LEADER_OR_FOLLOWER, None
        return E.NONE, partition

    def _name(self, name: str, topic_id: bytes) -> str | None:
        if name:
            return name
        return next((n for n, topic in self.topics.items() if topic.topic_id == topic_id), None)

    def _on_produce(self, node: int, request: Any, version: int) -> Any:
        dropped = False
        responses = []
        for topic in request.topic_data:
            name = self._name(topic.name, topic.topic_id)
            answers = []
            for entry in topic.partition_data:
                code, base, drops = self._produce(node, name, entry)
                dropped |= drops
                answers.append(
                    PartitionProduceResponse(index=entry.index, error_code=code, base_offset=base)
                )
            responses.append(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=answers
                )
            )
        if dropped:
            return None
        return b"" if request.acks == 0 else ProduceResponse(responses=responses)

    def _produce(self, node: int, name: str | None, entry: Any) -> tuple[int, int, bool]:
        """(error code, base offset, whether to drop the connection)."""
        if name is None:
            return E.UNKNOWN_TOPIC_ID, -1, False
        batch = bytes(entry.records)
        fault = self.fault(node, name, entry.index, read_header(batch))
        if fault == DROP:
            return E.NONE, -1, True
        if isinstance(fault, E):
            return fault, -1, False
        code, partition = self._find(node, name, entry.index, -1)
        if code != E.NONE:
            return code, -1, False
        if isinstance(fault, AppendedAndAnswered):
            partition.append(batch)
            return fault.error_code, -1, False
        return *partition.append(batch), fault == DROP_AFTER

    def _on_init_producer_id(self, node: int, request: Any, version: int) -> Any:
        self._next_producer_id += 1
        return InitProducerIdResponse(producer_id=self._next_producer_id, producer_epoch=0)

    def _on_list_offsets(self, node: int, request: Any, version: int) -> Any:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[self._list(node, topic.name, p) for p in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _list(self, node: int, topic: str, wanted: Any) -> ListOffsetsPartitionResponse:
        code, partition = self._find(
            node, topic, wanted.partition_index, wanted.current_leader_epoch
        )
        answer = ListOffsetsPartitionResponse(
            partition_index=wanted.partition_index, error_code=code
        )
        if code == E.NONE and wanted.timestamp == -1:
            answer.offset, answer.leader_epoch = partition.end_offset, partition.epoch
        elif code == E.NONE and wanted.timestamp == -2:
            answer.offset, answer.leader_epoch = partition.start_offset, partition.epochs[0][0]
        elif code == E.NONE:
            for batch in partition.batches:
                header = read_header(batch)
                if header.max_timestamp >= wanted.timestamp:
                    answer.offset, answer.timestamp = header.base_offset, header.max_timestamp
                    answer.leader_epoch = header.partition_leader_epoch
                    break
        return answer

    def _on_offset_for_leader_epoch(self, node: int, request: Any, version: int) -> Any:
        topics = []
        for topic in request.topics:
            ends = []
            for entry in topic.partitions:
                code, partition = self._find(
                    node, topic.topic, entry.partition, entry.current_leader_epoch
                )
                epoch, end = partition.end_of_epoch(entry.leader_epoch) if not code else (-1, -1)
                ends.append(
                    EpochEndOffset(
                        error_code=code,
                        partition=entry.partition,
                        leader_epoch=epoch,
                        end_offset=end,
                    )
                )
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=ends))
        return OffsetForLeaderEpochResponse(topics=topics)

    def _on_fetch(self, node: int, request: Any, version: int) -> Any:
        return FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        self._fetch(node, self._name(topic.topic, topic.topic_id), entry)
                        for entry in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _fetch(self, node: int, name: str | None, wanted: Any) -> PartitionData:
        answer = PartitionData(partition_index=wanted.partition, high_watermark=-1, records=b"")
        if name is None:
            answer.error_code = E.UNKNOWN_TOPIC_ID
            return answer
        copy = self.topics[name].partitions[wanted.partition].followers.get(node)
        code, partition = (
            (E.NONE, copy)
            if copy is not None
            else self._find(node, name, wanted.partition, wanted.current_leader_epoch)
        )
        answer.error_code = code
        if code != E.NONE:
            return answer
        answer.high_watermark = answer.last_stable_offset = partition.end_offset
        answer.log_start_offset = partition.start_offset
        if wanted.last_fetched_epoch >= 0:
            epoch, end = partition.end_of_epoch(wanted.last_fetched_epoch)
            if end < 0:
                answer.error_code = E.OFFSET_OUT_OF_RANGE
                return answer
            if end >= 0 and (epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset):
                answer.diverging_epoch = Diverging(epoch=epoch, end_offset=end)
                return answer
        if not partition.start_offset <= wanted.fetch_offset <= partition.end_offset:
            answer.error_code = E.OFFSET_OUT_OF_RANGE
            return answer
        blob = b""
        for batch in partition.batches:
            if read_header(batch).next_offset <= wanted.fetch_offset:
                continue
            if blob and len(blob) + len(batch) > wanted.partition_max_bytes:
                break
            blob += batch
        answer.records = blob
        return answer

    def _on_describe_configs(self, node: int, request: Any, version: int) -> Any:
        results = [
            DescribeConfigsResult(resource_type=one.resource_type, resource_name=one.resource_name)
            for one in request.resources
        ]
        return DescribeConfigsResponse(results=results)

    def _on_create_topics(self, node: int, request: Any, version: int) -> Any:
        results = []
        for topic in request.topics:
            code = E.TOPIC_ALREADY_EXISTS if topic.name in self.topics else E.NONE
            result = CreatableTopicResult(name=topic.name, error_code=code, error_message=None)
            if not code:
                created = self.create_topic(topic.name, max(1, topic.num_partitions))
                result.topic_id, result.num_partitions = created.topic_id, len(created.partitions)
            results.append(result)
        return CreateTopicsResponse(topics=results)

    def _on_delete_topics(self, node: int, request: Any, version: int) -> Any:
        results = []
        for name in request.topic_names or [topic.name for topic in request.topics]:
            found = self.topics.pop(name, None)
            code = E.NONE if found else E.UNKNOWN_TOPIC_OR_PARTITION
            results.append(DeletableTopicResult(name=name, error_code=code))
        return DeleteTopicsResponse(responses=results)
