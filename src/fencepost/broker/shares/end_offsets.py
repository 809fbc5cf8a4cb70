"""Where partitions end, asked of their leaders by ListOffsets (`runtime.end_offsets`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from fencepost.broker.cluster.broker_channel import BrokerChannel
from fencepost.machines.image import ClusterImage
from fencepost.machines.partition.inputs import Isolation, TimestampLookup
from fencepost.machines.partition.queries import LATEST_TIMESTAMP
from fencepost.runtime.end_offsets import Ends, TopicPartition
from fencepost.runtime.replicas import ReplicaManager
from fencepost.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from fencepost.wire.errors import ErrorCode, known_error

PURPOSE: Final = "end-offsets"


class LeaderEndOffsets:
    """Implements `EndOffsets`."""

    def __init__(
        self,
        node_id: int,
        replicas: ReplicaManager,
        channel: BrokerChannel,
        image: Callable[[], ClusterImage],
    ) -> None:
        self._node_id = node_id
        self._replicas = replicas
        self._channel = channel
        self._image = image

    def ask(self, partitions: Iterable[TopicPartition], done: Callable[[Ends], None]) -> None:
        """Ask this broker's replicas at once, and other leaders with a request each."""
        ends: dict[TopicPartition, tuple[ErrorCode, int]] = {}
        elsewhere: dict[int, list[TopicPartition]] = {}
        for one in partitions:
            leader = self._leader_of(one)
            if leader == self._node_id:
                ends[one] = self._end_here(one)
            elif leader < 0:
                ends[one] = ErrorCode.LEADER_NOT_AVAILABLE, -1
            else:
                elsewhere.setdefault(leader, []).append(one)
        outstanding = len(elsewhere)
        if not outstanding:
            done(ends)
            return

        def answered(asked: list[TopicPartition], response: ListOffsetsResponse | None) -> None:
            nonlocal outstanding
            ends.update(dict.fromkeys(asked, (ErrorCode.NETWORK_EXCEPTION, -1)))
            for topic in () if response is None else response.topics:
                for row in topic.partitions:
                    if (topic.name, row.partition_index) in ends:
                        found = known_error(row.error_code), row.offset
                        ends[topic.name, row.partition_index] = found
            outstanding -= 1
            if not outstanding:
                done(ends)

        def failed(asked: list[TopicPartition], reason: str) -> None:
            answered(asked, None)

        for node_id, asked in elsewhere.items():
            self._channel.ask(
                node_id,
                _request(asked),
                partial(answered, asked),
                partial(failed, asked),
                purpose=PURPOSE,
            )

    def _leader_of(self, one: TopicPartition) -> int:
        name, index = one
        topic = self._image().topics_by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return -1
        return topic.partitions[index].leader

    def _end_here(self, one: TopicPartition) -> tuple[ErrorCode, int]:
        hosted = self._replicas.get(*one)
        if isinstance(hosted, ErrorCode):
            return hosted, -1
        listed = hosted.machine.list_offset(
            timestamp_ms=LATEST_TIMESTAMP,
            current_leader_epoch=-1,
            isolation=Isolation.READ_UNCOMMITTED,
            leader_only=True,
        )
        assert not isinstance(listed, TimestampLookup), "the end needs no search"
        return (listed, -1) if isinstance(listed, ErrorCode) else (ErrorCode.NONE, listed.offset)


def _request(partitions: Iterable[TopicPartition]) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for name, index in partitions:
        topic = topics.setdefault(name, ListOffsetsTopic(name=name))
        topic.partitions.append(
            ListOffsetsPartition(partition_index=index, timestamp=LATEST_TIMESTAMP)
        )
    return ListOffsetsRequest(replica_id=-1, topics=list(topics.values()))
