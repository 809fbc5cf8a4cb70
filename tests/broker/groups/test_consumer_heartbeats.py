"""ConsumerGroupHeartbeat and ConsumerGroupDescribe on a whole node: what is refused before a group
is looked at, in Kafka's order, and what permissions are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.runtime.requests.permissions import (
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    READ_GROUP,
)
from fencepost.wire.api import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    FindCoordinatorRequest,
    OffsetFetchRequest,
)
from fencepost.wire.api.consumer_group_heartbeat import TopicPartitions
from fencepost.wire.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from ...waiting import eventually
from ..apis.authorizers import Rules
from ..conftest import RunningNode

INVALID = ErrorCode.INVALID_REQUEST
JOIN: dict[str, Any] = {
    "group_id": "g",
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout_ms": 60_000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}


def stay(**said: Any) -> dict[str, Any]:
    return {"group_id": "g", "member_id": "m", "member_epoch": 1, **said}


MISTAKES: list[Any] = [
    (1, {**JOIN, "member_id": ""}, "MemberId can't be empty."),
    (0, stay(member_id=""), "MemberId can't be empty."),
    (0, stay(member_id="", member_epoch=-1), "MemberId can't be empty."),
    (1, {**JOIN, "group_id": ""}, "GroupId can't be empty."),
    (1, {**JOIN, "instance_id": ""}, "InstanceId can't be empty."),
    (1, {**JOIN, "rack_id": " "}, "RackId can't be empty."),
    (1, {**JOIN, "rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided"),
    (1, {**JOIN, "topic_partitions": None}, "TopicPartitions must be empty"),
    (
        1,
        {**JOIN, "topic_partitions": [TopicPartitions(topic_id=Uuid.ZERO, partitions=[0])]},
        "TopicPartitions must be empty",
    ),
    (1, {**JOIN, "subscribed_topic_names": None}, "Either SubscribedTopicNames or"),
    (1, stay(member_epoch=-2), "InstanceId can't be null."),
    (1, stay(member_epoch=-3), "MemberEpoch is invalid."),
    # The first of several mistakes is told.
    (1, {**JOIN, "member_id": "", "group_id": ""}, "MemberId"),
    (1, {**JOIN, "rack_id": "", "rebalance_timeout_ms": -1}, "RackId"),
]


@pytest.fixture(scope="module")
def loaded(node: RunningNode) -> RunningNode:
    """The node coordinates groups."""
    with node.connect() as client:

        def is_there() -> bool:
            answer = client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 6)
            request = ConsumerGroupHeartbeatRequest(**stay(group_id="probe"))
            missing = ErrorCode.GROUP_ID_NOT_FOUND
            return not answer.coordinators[0].error_code and (
                client.ask(request, 1).error_code == missing
            )

        eventually(is_there, "groups are coordinated")
    return node


@pytest.fixture
def refuse(node: RunningNode) -> Iterator[Any]:
    access = node.node.access

    def replace(*refused: Any) -> None:
        access.authorizer = Rules(*refused)

    yield replace
    access.authorizer = None


def beat(node: RunningNode, version: int, said: dict[str, Any]) -> Any:
    with node.connect() as client:
        return client.ask(ConsumerGroupHeartbeatRequest(**said), version)


@pytest.mark.parametrize(("version", "said", "message"), MISTAKES)
def test_mistakes(loaded: RunningNode, version: int, said: dict[str, Any], message: str) -> None:
    answer = beat(loaded, version, said)
    assert answer.error_code == INVALID
    assert message in answer.error_message


def test_permissions_come_before_mistakes_and_groups(loaded: RunningNode, refuse: Any) -> None:
    refuse(READ_GROUP, DESCRIBE_TOPIC)
    wrong = {**JOIN, "member_id": ""}
    assert beat(loaded, 1, wrong).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    refuse(DESCRIBE_TOPIC)
    assert beat(loaded, 1, wrong).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    without = {**JOIN, "subscribed_topic_names": [], "member_id": ""}
    assert beat(loaded, 1, without).error_code == INVALID


def test_an_assignor_that_is_not_there(loaded: RunningNode) -> None:
    answer = beat(loaded, 1, {**JOIN, "server_assignor": "mine"})
    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in answer.error_message


def test_v0_members_are_given_an_id(loaded: RunningNode) -> None:
    answer = beat(loaded, 0, {**JOIN, "group_id": "v0", "member_id": ""})
    assert answer.error_code == 0
    assert len(answer.member_id) == 36


def test_text_that_is_not_utf8_is_refused(loaded: RunningNode) -> None:
    from fencepost.wire.frame import encode_request

    frame = bytes(encode_request(ConsumerGroupHeartbeatRequest(**JOIN), 1, 1, "c"))
    broken = frame.replace(b"\x02m", b"\x02\xff")
    assert broken != frame
    with loaded.connect() as client:
        client.send_raw(broken)
        assert client.receive(68, 1)[1].error_code == INVALID


def describe(node: RunningNode, *group_ids: str, version: int = 1, **said: Any) -> list[Any]:
    with node.connect() as client:
        request = ConsumerGroupDescribeRequest(group_ids=list(group_ids), **said)
        groups: list[Any] = client.ask(request, version).groups
        return groups


def test_describing(loaded: RunningNode, refuse: Any, topic: Any) -> None:
    """With CVE-2026-41115: members' assignments show topics."""
    joined = {**JOIN, "group_id": "d", "subscribed_topic_names": [topic.name]}
    assert beat(loaded, 1, joined).error_code == 0
    assert describe(loaded) == []
    (nameless,) = describe(loaded, "")
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID
    there, missing = describe(loaded, "d", "missing", include_authorized_operations=True)
    assert (there.error_code, there.group_state, len(there.members)) == (0, "Stable", 1)
    (of_topic,) = there.members[0].assignment.topic_partitions
    assert (of_topic.topic_name, of_topic.topic_id) == (topic.name, topic.topic_id)
    assert (there.members[0].member_type, there.authorized_operations) == (1, 3400)
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert describe(loaded, "d", version=0)[0].members[0].member_type == -1
    refuse(DESCRIBE_TOPIC)
    (hidden,) = describe(loaded, "d")
    assert (hidden.error_code, hidden.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    refuse(DESCRIBE_GROUP)
    (hidden,) = describe(loaded, "d")
    assert hidden.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_member_fetches_offsets_in_its_epoch(loaded: RunningNode, topic: Any) -> None:
    """The member and its epoch are not lost when the request is taken apart."""
    joined = {**JOIN, "group_id": "o", "subscribed_topic_names": [topic.name]}
    epoch = beat(loaded, 1, joined).member_epoch

    def fetched(member_id: str, member_epoch: int, indexes: list[int]) -> int:
        topics = [OffsetFetchRequestTopics(name=topic.name, partition_indexes=indexes)]
        group = OffsetFetchRequestGroup(
            group_id="o", member_id=member_id, member_epoch=member_epoch, topics=topics
        )
        with loaded.connect() as client:
            (answer,) = client.ask(OffsetFetchRequest(groups=[group]), 9).groups
        assert bool(answer.topics) == (not answer.error_code)
        return int(answer.error_code)

    for indexes in ([0], list(range(1_200))):
        assert fetched("m", epoch, indexes) == 0
        assert fetched("m", epoch + 1, indexes) == ErrorCode.STALE_MEMBER_EPOCH
        assert fetched("x", epoch, indexes) == ErrorCode.UNKNOWN_MEMBER_ID
