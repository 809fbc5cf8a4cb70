"""ListOffsets and OffsetForLeaderEpoch, as brokers are asked for them: the machines' answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.log.epochs import EpochEndOffset
from fencepost.machines.partition import ListedOffset
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.wire.api import list_offsets, offset_for_leader_epoch as epochs
from fencepost.wire.errors import ErrorCode

Reply = Callable[[Any], None]


def answer_list_offsets(
    broker: BrokerProcess, request: list_offsets.ListOffsetsRequest, reply: Reply
) -> None:
    """Where logs end or start."""
    response = list_offsets.ListOffsetsResponse()
    isolation = None if request.replica_id >= 0 else request.isolation_level
    for topic in request.topics:
        parts = [_listed(broker, topic.name, asked, isolation) for asked in topic.partitions]
        response.topics.append(
            list_offsets.ListOffsetsTopicResponse(name=topic.name, partitions=parts)
        )
    reply(response)


def _listed(
    broker: BrokerProcess,
    topic: str,
    asked: list_offsets.ListOffsetsPartition,
    isolation: int | None,
) -> list_offsets.ListOffsetsPartitionResponse:
    part = list_offsets.ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    hosted = broker.replicas.get(topic, asked.partition_index)
    found: Any = hosted
    if not isinstance(hosted, ErrorCode):
        found = hosted.machine.list_offset(
            timestamp_ms=asked.timestamp,
            current_leader_epoch=asked.current_leader_epoch,
            isolation=isolation,
        )
    if isinstance(found, ListedOffset):
        part.offset, part.leader_epoch = found.offset, found.leader_epoch
    else:
        part.error_code = int(found)
    return part


def answer_epochs(
    broker: BrokerProcess, request: epochs.OffsetForLeaderEpochRequest, reply: Reply
) -> None:
    """Where epochs end."""
    response = epochs.OffsetForLeaderEpochResponse()
    for topic in request.topics:
        parts = [_end_of(broker, topic.topic, asked) for asked in topic.partitions]
        response.topics.append(
            epochs.OffsetForLeaderTopicResult(topic=topic.topic, partitions=parts)
        )
    reply(response)


def _end_of(
    broker: BrokerProcess, topic: str, asked: epochs.OffsetForLeaderPartition
) -> epochs.EpochEndOffset:
    part = epochs.EpochEndOffset(error_code=0, partition=asked.partition)
    hosted = broker.replicas.get(topic, asked.partition)
    found: EpochEndOffset | ErrorCode
    if isinstance(hosted, ErrorCode):
        found = hosted
    else:
        found = hosted.machine.offset_for_leader_epoch(
            asked.current_leader_epoch, asked.leader_epoch
        )
    if isinstance(found, EpochEndOffset):
        part.leader_epoch, part.end_offset = found.epoch, found.end_offset
    else:
        part.error_code = int(found)
    return part
