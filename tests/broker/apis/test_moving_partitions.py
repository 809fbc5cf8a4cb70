"""AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders: from bytes to bytes."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from fencepost.wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from fencepost.wire.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.records.metadata import FeatureLevelRecord

from .harness import StillNode, ask, broker, register, served_versions, topic

register("alter_partition_reassignments", "list_partition_reassignments", "elect_leaders")
LISTENERS = ("PLAINTEXT", "CONTROLLER")


@pytest.fixture
def node() -> StillNode:
    return StillNode().learn(
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        broker(1),
        broker(2),
        broker(3),
        *topic("t", {"replicas": [1, 2]}, {"replicas": [2, 1], "leader": 1}),
    )


def move(replicas: list[int] | None, **changes: Any) -> AlterPartitionReassignmentsRequest:
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    return AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=[partition])], **changes
    )


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("version", [0, 1])
def test_a_move_is_recorded_listed_and_called_off(
    node: StillNode, listener: str, version: int
) -> None:
    reply = ask(node, move([3, 2]), version, listener)
    [result] = reply.responses[0].partitions
    assert (reply.error_code, result.error_code, result.error_message) == (0, 0, None)
    [listed] = ask(node, ListPartitionReassignmentsRequest(), 0, listener).topics
    [moving] = listed.partitions
    assert (listed.name, moving.partition_index) == ("t", 0)
    assert moving.replicas == [3, 2, 1]
    assert (moving.adding_replicas, moving.removing_replicas) == ([3], [1])
    [result] = ask(node, move(None), version, listener).responses[0].partitions
    assert result.error_code == 0
    assert ask(node, ListPartitionReassignmentsRequest(), 0, listener).topics == []
    [result] = ask(node, move(None), version, listener).responses[0].partitions
    assert result.error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert result.error_message is None, "clients say what they know of the code, as with Kafka"


def test_the_number_of_replicas_is_held_from_v1_on(node: StillNode) -> None:
    reply = ask(node, move([3], allow_replication_factor_change=False), 1)
    assert not reply.allow_replication_factor_change
    [result] = reply.responses[0].partitions
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_preferred_leader_is_elected(node: StillNode, listener: str, version: int) -> None:
    asked = [TopicPartitions(topic="t", partitions=[0, 1])]
    reply = ask(node, ElectLeadersRequest(topic_partitions=asked), version, listener)
    [results] = reply.replica_election_results
    found = {one.partition_id: one.error_code for one in results.partition_result}
    assert (results.topic, found) == ("t", {0: ErrorCode.ELECTION_NOT_NEEDED, 1: 0})
    assert node.image.topics_by_name["t"].partitions[1].leader == 2
    everywhere = ask(node, ElectLeadersRequest(topic_partitions=None), version, listener)
    [results] = everywhere.replica_election_results
    assert (results.topic, results.partition_result) == ("t", []), (
        "those that need none are left out"
    )


def test_an_unknown_type_of_election_is_refused_at_the_top(node: StillNode) -> None:
    reply = ask(node, ElectLeadersRequest(election_type=9, topic_partitions=None))
    assert reply.error_code == ErrorCode.INVALID_REQUEST


ELECT = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[1])])


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("request_", [move([3, 2]), ListPartitionReassignmentsRequest(), ELECT])
def test_a_request_without_time_is_refused(
    node: StillNode, request_: Message, listener: str
) -> None:
    request_.timeout_ms = 0  # type: ignore[attr-defined]
    try:
        for version in served_versions(type(request_), listener):
            before = node.image
            reply = ask(node, request_, version, listener)
            assert _error_of(reply, version) == ErrorCode.REQUEST_TIMED_OUT
            assert node.image is before
    finally:
        request_.timeout_ms = 60_000  # type: ignore[attr-defined]


@pytest.mark.parametrize("request_", [move([3, 2]), ListPartitionReassignmentsRequest(), ELECT])
def test_another_controller_is_active(node: StillNode, request_: Message) -> None:
    node.controller.error = ErrorCode.NOT_CONTROLLER
    for version in served_versions(type(request_), "CONTROLLER"):
        reply = ask(node, request_, version, "CONTROLLER")
        assert _error_of(reply, version) == ErrorCode.NOT_CONTROLLER


def _error_of(reply: Any, version: int) -> int:
    """The error of the whole request; ElectLeaders v0 says it of every partition."""
    results = getattr(reply, "replica_election_results", None)
    if version == 0 and results:
        return int(results[0].partition_result[0].error_code)
    return int(reply.error_code)
