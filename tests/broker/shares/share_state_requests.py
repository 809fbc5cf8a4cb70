"""What brokers ask share coordinators, through a raw client."""

from __future__ import annotations

from typing import Any, Final

from fencepost.wire.api import (
    delete_share_group_state as deleting,
    initialize_share_group_state as initializing,
    read_share_group_state as reading,
    read_share_group_state_summary as summarizing,
    write_share_group_state as writing,
)
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.types import Uuid

from ...waiting import eventually
from ..listener_fixtures import Client

QUICK_SHARES: Final = {
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""Configs with which a node can have share coordinators alone, and groups are assigned at once."""


def share_coordinated(client: Client, topic_id: Uuid, group: str) -> None:
    """Have the share coordinator of partition 0, and wait until it has loaded."""
    key = f"{group}:{topic_id}:0"
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    eventually(
        lambda: client.ask(request, 6).coordinators[0].error_code == 0, "the share coordinator"
    )
    eventually(lambda: summary(client, topic_id, group).error_code == 0, "loading")


def _row(answer: Any) -> Any:
    (topic,) = answer.results
    (row,) = topic.partitions
    return row


def initialize(client: Client, topic_id: Uuid, group: str, epoch: int, start: int) -> Any:
    data = initializing.PartitionData(partition=0, state_epoch=epoch, start_offset=start)
    topic = initializing.InitializeStateData(topic_id=topic_id, partitions=[data])
    request = initializing.InitializeShareGroupStateRequest(group_id=group, topics=[topic])
    return _row(client.ask(request, 0))


def write(
    client: Client, topic_id: Uuid, group: str, *batches: tuple[int, ...], **said: int
) -> Any:
    data = writing.PartitionData(
        partition=0,
        state_epoch=said.pop("state_epoch", 1),
        leader_epoch=said.pop("leader_epoch", 0),
        start_offset=said.pop("start_offset", 0),
        delivery_complete_count=said.pop("count", 0),
        state_batches=[
            writing.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
            )
            for first, last, state, count in batches
        ],
    )
    assert not said
    topic = writing.WriteStateData(topic_id=topic_id, partitions=[data])
    return _row(client.ask(writing.WriteShareGroupStateRequest(group_id=group, topics=[topic]), 1))


def read(client: Client, topic_id: Uuid, group: str, leader_epoch: int = 0) -> Any:
    data = reading.PartitionData(partition=0, leader_epoch=leader_epoch)
    topic = reading.ReadStateData(topic_id=topic_id, partitions=[data])
    return _row(client.ask(reading.ReadShareGroupStateRequest(group_id=group, topics=[topic]), 0))


def summary(client: Client, topic_id: Uuid, group: str) -> Any:
    data = summarizing.PartitionData(partition=0, leader_epoch=0)
    topic = summarizing.ReadStateSummaryData(topic_id=topic_id, partitions=[data])
    request = summarizing.ReadShareGroupStateSummaryRequest(group_id=group, topics=[topic])
    return _row(client.ask(request, 1))


def delete(client: Client, topic_id: Uuid, group: str) -> Any:
    data = deleting.PartitionData(partition=0)
    topic = deleting.DeleteStateData(topic_id=topic_id, partitions=[data])
    request = deleting.DeleteShareGroupStateRequest(group_id=group, topics=[topic])
    return _row(client.ask(request, 0))


def stored(row: Any) -> list[tuple[int, ...]]:
    return [
        (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in row.state_batches
    ]
