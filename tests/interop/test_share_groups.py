"""Share groups: Kafka's own tool, and brokers' requests to share coordinators, on both brokers."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from fencepost.client.connection import Connection
from fencepost.wire.api import (
    CreateTopicsRequest,
    delete_share_group_state as deleting,
    initialize_share_group_state as initializing,
    read_share_group_state as reading,
    read_share_group_state_summary as summarizing,
    write_share_group_state as writing,
)
from fencepost.wire.api.create_topics import CreatableTopic
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

from ..waiting import eventually
from .apache import run_tool
from .conftest import node_of_each_kind

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SHARES = {
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


bootstrap = node_of_each_kind(**SHARES)
"""Nodes that can keep the state of share groups alone."""


@pytest.fixture
def topic(broker: Connection) -> Any:
    name = f"shared{uuid.uuid4().hex[:12]}"
    wanted = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    (made,) = broker.request(CreateTopicsRequest(topics=[wanted]), 7).topics
    assert made.error_code == 0
    return made


@pytest.fixture
def group(broker: Connection, topic: Any) -> str:
    """A group without members that has a state in both partitions of the topic."""
    name, member = f"group{uuid.uuid4().hex[:12]}", str(uuid.uuid4())
    request = FindCoordinatorRequest(coordinator_keys=[name])
    eventually(lambda: broker.request(request, 6).coordinators[0].error_code == 0)

    def beat(epoch: int, *topics: str) -> Any:
        said = list(topics) or None
        request = ShareGroupHeartbeatRequest(
            group_id=name, member_id=member, member_epoch=epoch, subscribed_topic_names=said
        )
        return broker.request(request, 1)

    eventually(lambda: beat(0, topic.name).error_code == 0, "joining")

    def shares() -> int:
        answer = beat(0, topic.name)
        assert answer.error_code == 0, answer
        return sum(len(one.partitions) for one in answer.assignment.topic_partitions)

    eventually(lambda: shares() == 2, "the assignment")
    assert beat(-1).error_code == 0
    return name


def tool(bootstrap: str, *arguments: str, check: bool = True) -> list[list[str]]:
    """The words of the lines that the tool prints."""
    output = run_tool("share-groups", "--bootstrap-server", bootstrap, *arguments, check=check)
    return [line.split() for line in output.lines]


def test_the_tool_lists_describes_resets_and_deletes(
    bootstrap: str, topic: Any, group: str
) -> None:
    assert [group, "Empty"] in tool(bootstrap, "--list", "--state")
    state = tool(bootstrap, "--describe", "--group", group, "--state")
    assert state[-1][0] == group and state[-1][-2:] == ["Empty", "0"]
    where = ("--describe", "--group", group, "--offsets")
    assert {tuple(row[:4]) for row in tool(bootstrap, *where)[1:]} == {
        (group, topic.name, "0", "-"),
        (group, topic.name, "1", "-"),
    }
    reset = ("--reset-offsets", "--group", group, "--topic", topic.name)
    tool(bootstrap, *reset, "--to-earliest", "--execute")
    assert {tuple(row[:5]) for row in tool(bootstrap, *where)[1:]} == {
        (group, topic.name, "0", "0", "0"),
        (group, topic.name, "1", "0", "0"),
    }
    tool(bootstrap, *reset, "--to-latest", "--execute")
    tool(bootstrap, "--delete-offsets", "--group", group, "--topic", topic.name)
    assert not [row for row in tool(bootstrap, *where) if topic.name in row]
    tool(bootstrap, "--delete", "--group", group)
    assert group not in [row[0] for row in tool(bootstrap, "--list")]


# -- share coordinators ----------------------------------------------------------------------------


class State:
    """What a broker asks the share coordinator of one share partition."""

    def __init__(self, broker: Connection, group_id: str, topic_id: Uuid, partition: int) -> None:
        self.broker, self.group_id = broker, group_id
        self.topic_id, self.partition = topic_id, partition

    def _row(self, module: Any, name: str, topic: type[Any], version: int, **data: Any) -> Any:
        row = module.PartitionData(partition=self.partition, **data)
        topics = [topic(topic_id=self.topic_id, partitions=[row])]
        request: Message = getattr(module, name)(group_id=self.group_id, topics=topics)
        ((answer,),) = (one.partitions for one in self.broker.request(request, version).results)
        return answer

    def initialize(self, epoch: int, start: int) -> Any:
        name, topic = "InitializeShareGroupStateRequest", initializing.InitializeStateData
        return self._row(initializing, name, topic, 0, state_epoch=epoch, start_offset=start)

    def read(self, leader_epoch: int) -> Any:
        name, topic = "ReadShareGroupStateRequest", reading.ReadStateData
        return self._row(reading, name, topic, 0, leader_epoch=leader_epoch)

    def write(self, *batches: tuple[int, int, int, int], **said: int) -> Any:
        fields = {"state_epoch": 1, "leader_epoch": 0, "start_offset": 0, **said}
        rows = [
            writing.StateBatch(
                first_offset=one[0],
                last_offset=one[1],
                delivery_state=one[2],
                delivery_count=one[3],
            )
            for one in batches
        ]
        name, topic = "WriteShareGroupStateRequest", writing.WriteStateData
        return self._row(writing, name, topic, 1, state_batches=rows, **fields)

    def delete(self) -> Any:
        name, topic = "DeleteShareGroupStateRequest", deleting.DeleteStateData
        return self._row(deleting, name, topic, 0)

    def summary(self) -> Any:
        name, topic = "ReadShareGroupStateSummaryRequest", summarizing.ReadStateSummaryData
        return self._row(summarizing, name, topic, 1, leader_epoch=0)


@pytest.fixture
def state(broker: Connection, topic: Any) -> State:
    """Of a share partition that has none yet, whose coordinator is loaded."""
    made = State(broker, f"raw{uuid.uuid4().hex[:12]}", topic.topic_id, 0)
    key = f"{made.group_id}:{topic.topic_id}:0"
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    eventually(lambda: broker.request(request, 6).coordinators[0].error_code == 0)
    eventually(lambda: made.summary().error_code == 0, "loading")
    return made


def seen(row: Any) -> tuple[Any, ...]:
    """All of a row of ReadShareGroupState."""
    batches = [
        (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in row.state_batches
    ]
    return row.error_code, row.error_message, row.state_epoch, row.start_offset, batches


def told(row: Any) -> tuple[Any, ...]:
    """All of a row of ReadShareGroupStateSummary."""
    return (
        row.error_code,
        row.state_epoch,
        row.leader_epoch,
        row.start_offset,
        row.delivery_complete_count,
    )


def test_states_are_initialized_written_merged_and_deleted(state: State) -> None:
    assert told(state.summary()) == (0, 0, 0, -1, -1)
    assert state.read(0).error_code == 42
    assert state.initialize(2, -1).error_code == 0
    assert told(state.summary()) == (0, 2, 0, -1, -1)
    assert seen(state.read(0)) == (0, None, 2, -1, [])
    said = {"state_epoch": 2, "delivery_complete_count": 0}
    assert state.write((0, 9, 0, 1), (4, 5, 2, 1), (4, 4, 0, 2), **said).error_code == 0
    assert seen(state.read(0))[4] == [(0, 3, 0, 1), (4, 4, 0, 2), (5, 5, 2, 1), (6, 9, 0, 1)]
    said |= {"start_offset": 5, "delivery_complete_count": 1}
    assert state.write((5, 9, 2, 1), **said).error_code == 0
    assert seen(state.read(0)) == (0, None, 2, 5, [(5, 9, 2, 1)])
    said |= {"start_offset": 3, "delivery_complete_count": 9}
    assert state.write((5, 9, 4, 1), **said).error_code == 0
    assert told(state.summary()) == (0, 2, 0, 5, 1)
    assert seen(state.read(0))[4] == [(5, 9, 4, 1)]
    assert state.initialize(2, 7).error_code == 0
    assert seen(state.read(0)) == (0, None, 2, 7, [])
    assert told(state.summary()) == (0, 2, 0, 7, 0)
    assert state.delete().error_code == 0
    assert state.delete().error_code == 0
    assert told(state.summary()) == (0, 0, 0, -1, -1)


def test_epochs_and_partitions_are_checked(state: State, topic: Any) -> None:
    assert state.initialize(-1, 0).error_message == ("The state epoch cannot be a negative number.")
    assert state.initialize(4, 0).error_code == 0
    assert state.initialize(3, 0).error_code == 124
    assert state.read(-1).error_message == "The leader epoch cannot be a negative number."
    assert state.read(5).error_code == 0
    assert told(state.summary()) == (0, 4, 5, 0, 0)
    assert seen(state.read(4))[:2] == (
        74,
        "The leader epoch in the request is older than the epoch on the broker.",
    )
    refused = state.write(state_epoch=4, leader_epoch=4)
    assert refused.error_code == 74
    refused = state.write(state_epoch=3, leader_epoch=5)
    assert (refused.error_code, refused.error_message) == (
        124,
        "The coordinator rejected the request because the state epoch did not match.",
    )
    assert state.write(state_epoch=4, leader_epoch=6).error_code == 0
    assert told(state.summary()) == (0, 4, 5, 0, 0), "a write does not store its leader's epoch"
    for partition, error in ((-1, 42), (2, 3)):
        other = State(state.broker, state.group_id, topic.topic_id, partition)
        assert other.summary().error_code == error
        assert other.delete().error_code == error
        assert other.initialize(1, 0).error_code == error
    strange = State(state.broker, state.group_id, Uuid(b"no topic has it!"), 0)
    assert strange.initialize(1, 0).error_message == (
        "This server does not host this topic-partition."
    )
    assert strange.write().error_message == (
        "Write operation on uninitialized share partition not allowed."
    )
