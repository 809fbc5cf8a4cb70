"""The same heartbeats of consumer groups to Fencepost and to Apache Kafka: the same answers.

Every story runs against both, so an expectation that is wrong fails on Kafka. Texts of errors that
name a broker's own ids are not compared.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from fencepost.client.connection import Connection
from fencepost.wire.api import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from fencepost.wire.api.consumer_group_heartbeat import TopicPartitions
from fencepost.wire.api.create_topics import CreatableTopic
from fencepost.wire.api.join_group import JoinGroupRequestProtocol
from fencepost.wire.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from fencepost.wire.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from fencepost.wire.errors import ErrorCode as E
from fencepost.wire.records.consumer import ConsumerProtocolSubscription, encode_prefixed
from fencepost.wire.types import Uuid

from ..waiting import DEADLINE_MS, eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]

INTERVAL_S = 1.1
"""Longer than `group.consumer.assignment.interval.ms`."""


class Group:
    """A group of one broker, whose members read one topic of four partitions."""

    def __init__(self, broker: Connection, topic: Any) -> None:
        self.broker = broker
        self.topic = topic
        self.name = f"group-{uuid.uuid4().hex[:12]}"

    def beat(self, member: str, epoch: int, *, version: int = 1, **said: Any) -> Any:
        """The answer; `owned` are partitions of the topic."""
        owned = said.pop("owned", None)
        if owned is not None:
            whole = TopicPartitions(topic_id=self.topic.topic_id, partitions=owned)
            said["topic_partitions"] = [whole] if owned else []
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.name, member_id=member, member_epoch=epoch, **said
        )
        return self.broker.request(request, version)

    def enter(self, member: str, **said: Any) -> Any:
        said = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": [self.topic.name],
            "owned": [],
            **said,
        }
        return self.beat(member, 0, **said)

    def told(self, answer: Any) -> tuple[int, int, list[int] | None]:
        """(error, member epoch, partitions of the topic or None)"""
        partitions = None
        if answer.assignment is not None:
            partitions = []
            for topic in answer.assignment.topic_partitions:
                assert topic.topic_id == self.topic.topic_id
                partitions = sorted(topic.partitions)
        return answer.error_code, answer.member_epoch, partitions

    def describe(self) -> Any:
        request = ConsumerGroupDescribeRequest(group_ids=[self.name])
        (group,) = self.broker.request(request, 1).groups
        return group

    def epochs(self) -> tuple[str, int, int]:
        group = self.describe()
        return group.group_state, group.group_epoch, group.assignment_epoch

    def commit(self, member: str, epoch: int, partition: int = 0, version: int = 9) -> int:
        request = OffsetCommitRequest(
            group_id=self.name,
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=[
                OffsetCommitRequestTopic(
                    name=self.topic.name,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=1, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        return int(self.broker.request(request, version).topics[0].partitions[0].error_code)

    def fetch(self, member: str | None, epoch: int) -> int:
        topics = [OffsetFetchRequestTopics(name=self.topic.name, partition_indexes=[0])]
        group = OffsetFetchRequestGroup(
            group_id=self.name, member_id=member, member_epoch=epoch, topics=topics
        )
        return int(self.broker.request(OffsetFetchRequest(groups=[group]), 9).groups[0].error_code)

    def join_classic(self) -> int:
        metadata = encode_prefixed(ConsumerProtocolSubscription(topics=[self.topic.name]), 1)
        request = JoinGroupRequest(
            group_id=self.name,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        return int(self.broker.request(request, 9).error_code)


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> Any:
    host, _, port = bootstrap.rpartition(":")
    with Connection(host, int(port), timeout_ms=DEADLINE_MS) as broker:
        find = FindCoordinatorRequest(key="any")
        eventually(lambda: broker.request(find, 3).error_code == 0)
        eventually(lambda: broker.request(ListGroupsRequest(), 4).error_code == 0)
        wanted = CreatableTopic(
            name=f"topic-{uuid.uuid4().hex[:12]}", num_partitions=4, replication_factor=1
        )
        (made,) = broker.request(CreateTopicsRequest(topics=[wanted]), 7).topics
        assert made.error_code == 0

        def is_assigned() -> bool:
            """The coordinator knows the topic."""
            probe = Group(broker, made)
            answer = probe.told(probe.enter("m"))
            probe.beat("m", -1)
            return bool(answer[2])

        eventually(is_assigned)
        return made


@pytest.fixture
def group(broker: Connection, topic: Any) -> Group:
    made = Group(broker, topic)
    eventually(lambda: made.beat("x", 1).error_code == E.GROUP_ID_NOT_FOUND)
    return made


def later() -> None:
    """Until the next target may be computed: brokers go by their own clocks."""
    time.sleep(INTERVAL_S)


def test_a_partition_goes_over(group: Group) -> None:
    assert group.told(group.enter("a")) == (0, 2, [0, 1, 2, 3])
    assert group.epochs() == ("Stable", 2, 2)
    assert group.told(group.enter("b")) == (0, 2, [])
    assert group.epochs() == ("Assigning", 3, 2)
    later()
    assert group.told(group.beat("b", 2)) == (0, 3, None)
    assert group.epochs() == ("Reconciling", 3, 3)
    assert group.told(group.beat("a", 2)) == (0, 2, [0, 1])
    assert group.told(group.beat("a", 2)) == (0, 2, None)
    assert group.told(group.beat("b", 3)) == (0, 3, None)
    assert group.told(group.beat("a", 2, owned=[0, 1, 2])) == (0, 2, None)
    assert group.told(group.beat("a", 2, owned=[0, 1])) == (0, 3, None)
    assert group.told(group.beat("b", 3)) == (0, 3, [2, 3])
    assert group.epochs() == ("Stable", 3, 3)
    assert group.told(group.beat("a", 2, owned=[0, 1])) == (0, 3, None), "a lost answer"
    assert group.told(group.beat("a", 2)) == (E.FENCED_MEMBER_EPOCH, 0, None)
    assert group.told(group.beat("a", 2, owned=[0, 3])) == (E.FENCED_MEMBER_EPOCH, 0, None)
    assert group.told(group.beat("a", 4)) == (E.FENCED_MEMBER_EPOCH, 0, None)
    assert group.told(group.enter("a")) == (0, 3, [0, 1])
    assert group.told(group.beat("a", -1)) == (0, -1, None)
    assert group.epochs() == ("Assigning", 4, 3)
    assert group.told(group.beat("b", 3))[0] == 0
    later()
    assert group.told(group.beat("b", 3))[0] == 0
    assert group.told(group.beat("b", -1)) == (0, -1, None)
    assert group.epochs() == ("Empty", 5, 5)
    assert group.told(group.enter("c")) == (0, 6, [0, 1, 2, 3])


def test_a_member_without_topics(group: Group) -> None:
    assert group.told(group.enter("a", subscribed_topic_names=[])) == (0, 1, [])
    assert group.epochs() == ("Stable", 1, 1)
    answer = group.beat("a", 1, subscribed_topic_names=[group.topic.name])
    assert group.told(answer) == (0, 2, [0, 1, 2, 3])


def test_subscriptions_change(group: Group) -> None:
    group.enter("a")
    answer = group.beat("a", 2, subscribed_topic_names=[])
    assert group.told(answer) == (0, 2, []), "before there is another target"
    assert group.epochs() == ("Assigning", 3, 2)
    later()
    assert group.told(group.beat("a", 2)) == (0, 2, None)
    assert group.told(group.beat("a", 2, owned=[])) == (0, 3, None)
    assert group.epochs() == ("Stable", 3, 3)


def test_assignors(group: Group) -> None:
    group.enter("a")
    assert group.describe().assignor_name == "uniform"
    answer = group.beat("a", 2, server_assignor="range")
    assert group.told(answer) == (0, 2, None)
    assert group.epochs() == ("Assigning", 3, 2)
    assert group.describe().assignor_name == "range"
    answer = group.beat("a", 2, server_assignor="mine")
    assert answer.error_code == E.UNSUPPORTED_ASSIGNOR
    assert answer.error_message == (
        "ServerAssignor mine is not supported. Supported assignors: uniform, range."
    )


def test_static_members(group: Group) -> None:
    said = {"instance_id": "i"}
    assert group.told(group.enter("s", **said)) == (0, 2, [0, 1, 2, 3])
    assert group.enter("s2", **said).error_code == E.UNRELEASED_INSTANCE_ID
    assert group.beat("s2", 2, **said).error_code == E.FENCED_INSTANCE_ID
    assert group.beat("s2", -1, **said).error_code == E.FENCED_INSTANCE_ID
    assert group.beat("s", 2, instance_id="j").error_code == E.UNKNOWN_MEMBER_ID
    assert group.told(group.beat("s", -2, **said)) == (0, -2, None)
    (member,) = group.describe().members
    assert (member.member_id, member.member_epoch) == ("s", -2)
    assert group.told(group.enter("s2", **said)) == (0, 2, [0, 1, 2, 3])
    assert group.epochs() == ("Stable", 2, 2)
    assert group.beat("s", 2, **said).error_code == E.FENCED_INSTANCE_ID
    assert group.told(group.beat("s2", -1, **said)) == (0, -1, None)
    assert group.epochs() == ("Empty", 3, 3)


def test_offsets_by_epoch(group: Group) -> None:
    group.enter("a")
    group.enter("b")
    later()
    group.beat("b", 2)
    group.beat("a", 2)
    group.beat("a", 2, owned=[0, 1])
    assert group.commit("a", 3) == 0
    assert group.commit("a", 2, 0) == 0, "it has it since epoch 2"
    assert group.commit("a", 1, 0) == E.STALE_MEMBER_EPOCH
    assert group.commit("a", 2, 3) == E.STALE_MEMBER_EPOCH
    assert group.commit("a", 4) == E.STALE_MEMBER_EPOCH
    assert group.commit("x", 3) == E.UNKNOWN_MEMBER_ID
    assert group.commit("", -1) == E.UNKNOWN_MEMBER_ID
    assert group.commit("a", 3, version=8) == E.UNSUPPORTED_VERSION
    assert group.fetch("a", 3) == 0
    assert group.fetch("a", 2) == E.STALE_MEMBER_EPOCH
    assert group.fetch("x", 3) == E.UNKNOWN_MEMBER_ID
    assert group.fetch(None, -1) == 0


def test_regular_expressions(group: Group) -> None:
    said = {"subscribed_topic_names": None, "subscribed_topic_regex": f"{group.topic.name}.*"}
    assert group.told(group.enter("a", **said)) == (0, 1, [])
    eventually(lambda: group.describe().group_epoch == 2)
    assert group.told(group.beat("a", 1)) == (0, 2, [0, 1, 2, 3])
    answer = group.enter("b", subscribed_topic_names=[], subscribed_topic_regex="a(?=b)")
    assert answer.error_code == E.INVALID_REGULAR_EXPRESSION
    answer = group.beat("a", 2, subscribed_topic_regex="")
    assert group.told(answer) == (0, 2, [])
    assert group.epochs() == ("Assigning", 3, 2)


MISTAKES: list[dict[str, Any]] = [
    {"member_id": ""},
    {"group_id": ""},
    {"instance_id": ""},
    {"rack_id": ""},
    {"rebalance_timeout_ms": -1},
    {"topic_partitions": None},
    {"topic_partitions": [TopicPartitions(topic_id=Uuid.ZERO, partitions=[0])]},
    {"subscribed_topic_names": None},
    {"member_epoch": -2},
    {"member_epoch": -3},
]
WORDS = [
    "MemberId can't be empty.",
    "GroupId can't be empty.",
    "InstanceId can't be empty.",
    "RackId can't be empty.",
    "RebalanceTimeoutMs must be provided in first request.",
    "TopicPartitions must be empty when (re-)joining.",
    "TopicPartitions must be empty when (re-)joining.",
    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    "InstanceId can't be null.",
    "MemberEpoch is invalid.",
]


@pytest.mark.parametrize(("mistake", "words"), list(zip(MISTAKES, WORDS, strict=True)))
def test_mistakes(group: Group, mistake: dict[str, Any], words: str) -> None:
    said: dict[str, Any] = {
        "group_id": group.name,
        "member_id": "m",
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": [group.topic.name],
        "topic_partitions": [],
        **mistake,
    }
    answer = group.broker.request(ConsumerGroupHeartbeatRequest(**said), 1)
    assert (answer.error_code, answer.error_message) == (E.INVALID_REQUEST, words)


def test_words(group: Group) -> None:
    name = group.name
    answer = group.beat("a", 1)
    assert answer.error_message == f"Consumer group {name} not found."
    assert group.beat("a", -1).error_message == f"Group {name} not found."
    group.enter("s", instance_id="i")
    answer = group.beat("x", 1)
    assert answer.error_message == f"Member x is not a member of group {name}."
    answer = group.beat("x", -1)
    assert answer.error_message == f"Member x is not a member of group {name}."
    answer = group.enter("x", instance_id="i")
    assert answer.error_message == (
        "Static member x with instance id i cannot join the group because the instance id is "
        "owned by s member."
    )
    answer = group.beat("x", 1, instance_id="i")
    assert answer.error_message == "Static member x with instance id i was fenced by member s."
    answer = group.beat("x", 1, instance_id="j")
    assert answer.error_message == "Instance id j is unknown."
    ahead = group.beat("s", 3, instance_id="i").error_message
    behind = group.beat("s", 1, instance_id="i").error_message
    assert ahead == (
        "The consumer group member has a greater member epoch (3) than the one known by the group "
        "coordinator (2). The member must abandon all its partitions and rejoin."
    )
    assert behind == (
        "The consumer group member has a smaller member epoch (1) than the one known by the group "
        "coordinator (2). The member must abandon all its partitions and rejoin."
    )


def test_other_types(group: Group) -> None:
    name, broker = group.name, group.broker
    group.enter("a")
    (classic,) = broker.request(DescribeGroupsRequest(groups=[name]), 6).groups
    assert (classic.error_code, classic.group_state) == (E.GROUP_ID_NOT_FOUND, "Dead")
    assert classic.error_message == f"Group {name} is not a classic group."
    listed = broker.request(ListGroupsRequest(types_filter=["Consumer"]), 5).groups
    (one,) = [one for one in listed if one.group_id == name]
    assert (one.group_type, one.group_state, one.protocol_type) == (
        "consumer",
        "Stable",
        "consumer",
    )
    delete = DeleteGroupsRequest(groups_names=[name])
    (result,) = broker.request(delete, 2).results
    assert result.error_code == E.NON_EMPTY_GROUP
    group.beat("a", -1)
    assert group.join_classic() == E.MEMBER_ID_REQUIRED
    (result,) = broker.request(delete, 2).results
    assert result.error_code == 0
    missing = group.describe()
    assert (missing.error_code, missing.group_state) == (E.GROUP_ID_NOT_FOUND, "")
    assert missing.error_message == f"Group {name} not found."
