"""Share groups on a whole node, asked by a raw client: membership, and the state of partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.runtime.requests.permissions import DESCRIBE_GROUP, DESCRIBE_TOPIC
from fencepost.wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from fencepost.wire.api.delete_groups import DeleteGroupsRequest
from fencepost.wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from fencepost.wire.api.list_groups import ListGroupsRequest
from fencepost.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fencepost.wire.api.offset_delete import OffsetDeleteRequest
from fencepost.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from fencepost.wire.api.share_group_describe import ShareGroupDescribeRequest
from fencepost.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from fencepost.wire.errors import ErrorCode

from ...waiting import eventually
from ..apis.authorizers import Rules
from ..conftest import RunningNode
from ..groups.group_requests import coordinated, join, new_group
from ..listener_fixtures import Client
from ..topic_requests import batch, make_topic, produce
from .share_state_requests import QUICK_SHARES, initialize, read, summary

NodeFactory = Callable[..., RunningNode]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    running = RunningNode(tmp_path_factory.mktemp("node") / "data", QUICK_SHARES)
    yield running
    running.close()


def heartbeat(
    client: Client, group: str, member: str, epoch: int, *topics: str, **said: Any
) -> Any:
    request = ShareGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        subscribed_topic_names=list(topics) or None,
        **said,
    )
    return client.ask(request, 1)


class Member:
    """A member that heartbeats as it is told."""

    def __init__(self, client: Client, group: str, name: str, *topics: str) -> None:
        self.client, self.group, self.name = client, group, name
        answer = heartbeat(client, group, name, 0, *topics)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        self.assigned = self.take(answer)

    def take(self, answer: Any) -> dict[Any, list[int]]:
        return {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}

    def beat(self) -> dict[Any, list[int]]:
        answer = heartbeat(self.client, self.group, self.name, self.epoch)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = self.take(answer)
        return self.assigned

    def leave(self) -> None:
        assert heartbeat(self.client, self.group, self.name, -1).error_code == 0


def joined(client: Client, topic: Any, *, partitions: int = 1) -> Member:
    """A member of a new group that is assigned the topic's partitions."""
    group = new_group()
    coordinated(client, group)
    member = Member(client, group, f"member-of-{group}", topic.name)
    wanted = {topic.topic_id: list(range(partitions))}
    eventually(lambda: member.beat() == wanted, "the assignment")
    return member


def described(client: Client, group: str) -> Any:
    (answer,) = client.ask(ShareGroupDescribeRequest(group_ids=[group]), 1).groups
    return answer


def offsets(
    client: Client, group: str, *topics: Any, version: int = 1
) -> dict[Any, tuple[int, ...]]:
    """(start offset, leader epoch, lag, error) by topic's name and partition."""
    wanted = [
        DescribeShareGroupOffsetsRequestTopic(topic_name=topic.name, partitions=[0])
        for topic in topics
    ]
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=wanted or None)
    (answer,) = client.ask(DescribeShareGroupOffsetsRequest(groups=[asked]), 1).groups
    assert answer.error_code == 0, answer
    return {
        (topic.topic_name, row.partition_index): (
            row.start_offset,
            row.leader_epoch,
            row.lag,
            row.error_code,
        )
        for topic in answer.topics
        for row in topic.partitions
    }


def altered(client: Client, group: str, topic: Any, offset: int, partition: int = 0) -> Any:
    row = AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
    asked = AlterShareGroupOffsetsRequestTopic(topic_name=topic.name, partitions=[row])
    return client.ask(AlterShareGroupOffsetsRequest(group_id=group, topics=[asked]), 0)


def described_rows(client: Client, group: str, topic: Any, partitions: list[int]) -> Any:
    """The rows of DescribeShareGroupOffsets for these partitions of a topic."""
    wanted = DescribeShareGroupOffsetsRequestTopic(topic_name=topic.name, partitions=partitions)
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=[wanted])
    (answer,) = client.ask(DescribeShareGroupOffsetsRequest(groups=[asked]), 1).groups
    return answer.topics[0].partitions


def deleted_offsets(client: Client, group: str, topic: Any) -> Any:
    asked = DeleteShareGroupOffsetsRequestTopic(topic_name=topic.name)
    return client.ask(DeleteShareGroupOffsetsRequest(group_id=group, topics=[asked]), 0)


def deleted(client: Client, group: str) -> int:
    (row,) = client.ask(DeleteGroupsRequest(groups_names=[group]), 2).results
    return int(row.error_code)


def listed(client: Client, *types: str, states: tuple[str, ...] = ()) -> dict[str, tuple[str, str]]:
    request = ListGroupsRequest(types_filter=list(types), states_filter=list(states))
    answer = client.ask(request, 5)
    return {one.group_id: (one.group_type, one.group_state) for one in answer.groups}


# -- membership ------------------------------------------------------------------------------------


def test_a_member_is_assigned_partitions_once_they_have_a_state(client: Client) -> None:
    topic = make_topic(client, partitions=3)
    member = joined(client, topic, partitions=3)
    row = summary(client, topic.topic_id, member.group)
    assert (row.error_code, row.state_epoch, row.start_offset) == (0, 2, -1)
    answer = described(client, member.group)
    assert (answer.group_state, answer.assignor_name) == ("Stable", "simple")
    (told,) = answer.members
    assert (told.member_id, told.member_epoch) == (member.name, member.epoch)
    (assigned,) = told.assignment.topic_partitions
    assert (assigned.topic_name, assigned.partitions) == (topic.name, [0, 1, 2])
    assert listed(client, "share")[member.group] == ("share", "Stable")
    assert member.group not in listed(client, "classic")
    assert member.group in listed(client, "SHARE", states=("stable",))
    assert member.group not in listed(client, "share", states=("empty",))


def test_a_group_is_described_to_those_who_may_know_its_topics(
    client: Client, topic: Any, node: RunningNode
) -> None:
    """CVE-2026-41115: members' assignments show topics."""
    member = joined(client, topic)
    assert described(client, member.group).members
    access = node.node.access
    try:
        access.authorizer = Rules(DESCRIBE_TOPIC)
        hidden = described(client, member.group)
        assert (hidden.error_code, hidden.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
        assert hidden.group_state == hidden.assignor_name == ""
        access.authorizer = Rules(DESCRIBE_GROUP)
        hidden = described(client, member.group)
        assert (hidden.error_code, hidden.members) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
    finally:
        access.authorizer = None


def test_members_share_a_partition(client: Client, topic: Any) -> None:
    first = joined(client, topic)
    second = Member(client, first.group, "second", topic.name)
    wanted = {topic.topic_id: [0]}
    eventually(lambda: second.beat() == wanted, "the assignment of the second member")
    assert first.beat() == wanted


def test_a_group_without_members_is_deleted_with_its_state(client: Client, topic: Any) -> None:
    member = joined(client, topic)
    assert deleted(client, member.group) == 68
    member.leave()
    assert described(client, member.group).group_state == "Empty"
    assert summary(client, topic.topic_id, member.group).state_epoch > 0
    assert deleted(client, member.group) == 0
    assert described(client, member.group).error_code == 69
    assert member.group not in listed(client)
    assert read(client, topic.topic_id, member.group).error_code == 42, "no state is left"
    assert deleted(client, member.group) == 69


def test_what_members_say_is_checked(client: Client, topic: Any) -> None:
    member = joined(client, topic)
    group = member.group
    long_id = "m" * 37
    assert heartbeat(client, group, "", 0, topic.name).error_code == 42
    assert heartbeat(client, group, " ", 0, topic.name).error_message == "MemberId can't be empty."
    assert heartbeat(client, group, long_id, 0, topic.name).error_code == 42
    assert heartbeat(client, "", "m", 0, topic.name).error_message == "GroupId can't be empty."
    assert heartbeat(client, group, "m", 0, topic.name, rack_id="").error_code == 42
    assert heartbeat(client, group, "m", 0).error_code == 42
    assert heartbeat(client, group, "m", -2).error_message == "MemberEpoch is invalid."
    assert heartbeat(client, group, "stranger", 5).error_code == 25
    assert heartbeat(client, group, "stranger", -1).error_code == 25
    assert heartbeat(client, group, member.name, member.epoch + 1).error_code == 110
    assert heartbeat(client, "no-such-group", "m", 5).error_code == 69
    assert heartbeat(client, "no-such-group", "m", -1).error_code == 69
    (none,) = client.ask(ShareGroupDescribeRequest(group_ids=[""]), 1).groups
    assert none.error_code == 24


def test_offsets_of_a_share_group_are_not_committed(client: Client, topic: Any) -> None:
    member = joined(client, topic)
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    asked = OffsetCommitRequestTopic(name=topic.name, partitions=[row])
    request = OffsetCommitRequest(group_id=member.group, topics=[asked])
    assert client.ask(request, 9).topics[0].partitions[0].error_code == 69
    wanted = OffsetFetchRequestGroup(group_id=member.group, topics=None)
    (answer,) = client.ask(OffsetFetchRequest(groups=[wanted]), 9).groups
    assert (answer.error_code, answer.topics) == (0, [])
    assert client.ask(OffsetDeleteRequest(group_id=member.group), 0).error_code == 69


def test_a_classic_group_is_no_share_group(client: Client, topic: Any) -> None:
    group = new_group()
    coordinated(client, group)
    join(client, group)
    answer = heartbeat(client, group, "m", 0, topic.name)
    assert answer.error_code == 69 and "is not a share group" in answer.error_message
    assert described(client, group).error_code == 69
    assert altered(client, group, topic, 1).error_code == 69


# -- offsets ---------------------------------------------------------------------------------------


def test_offsets_are_described_altered_and_deleted(client: Client, topic: Any) -> None:
    produce(client, topic, batch(*(b"%d" % number for number in range(5))))
    member = joined(client, topic)
    group = member.group
    assert altered(client, group, topic, 2).error_code == 68
    assert deleted_offsets(client, group, topic).error_code == 68
    assert offsets(client, group) == {(topic.name, 0): (-1, 0, -1, 0)}
    member.leave()
    ((row,),) = [one.partitions for one in altered(client, group, topic, 2).responses]
    assert row.error_code == 0
    assert offsets(client, group) == {(topic.name, 0): (2, 0, 3, 0)}
    assert offsets(client, group, topic) == {(topic.name, 0): (2, 0, 3, 0)}
    ((row,),) = [one.partitions for one in altered(client, group, topic, 2, 7).responses]
    assert row.error_code == 3
    (told,) = deleted_offsets(client, group, topic).responses
    assert (told.error_code, told.topic_id) == (0, topic.topic_id)
    assert offsets(client, group) == {}
    (told,) = deleted_offsets(client, group, topic).responses
    assert told.error_code == 3


def test_altering_makes_a_group_and_raises_its_epoch_each_time(client: Client, topic: Any) -> None:
    group = new_group()
    coordinated(client, group)
    epochs = []
    for offset in (4, 2):
        assert altered(client, group, topic, offset).error_code == 0
        row = summary(client, topic.topic_id, group)
        epochs.append(row.state_epoch)
        assert row.start_offset == offset
    assert epochs == [2, 3]
    assert listed(client, "share")[group] == ("share", "Empty")
    assert deleted_offsets(client, "no-such-group", topic).error_code == 69


def test_an_old_state_epoch_is_fenced_after_altering(client: Client, topic: Any) -> None:
    group = new_group()
    coordinated(client, group)
    assert altered(client, group, topic, 4).error_code == 0
    assert altered(client, group, topic, 5).error_code == 0
    assert initialize(client, topic.topic_id, group, 2, 0).error_code == 124


def test_a_restart_keeps_the_group_its_members_and_its_state(node_factory: NodeFactory) -> None:
    running = node_factory(**QUICK_SHARES)
    with running.connect() as client:
        topic = make_topic(client, partitions=2)
        member = joined(client, topic, partitions=2)
        before = described(client, member.group)
    running.restart()
    with running.connect() as client:
        coordinated(client, member.group)
        assert described(client, member.group) == before
        eventually(lambda: offsets(client, member.group).keys() != set(), "the offsets")
        member.client = client
        assert member.beat() == {topic.topic_id: [0, 1]}


def test_a_deleted_topic_leaves_the_group_and_the_share_coordinator(node: RunningNode) -> None:
    with node.connect() as client:
        topic, other = make_topic(client), make_topic(client)
        group = new_group()
        coordinated(client, group)
        member = Member(client, group, "m", topic.name, other.name)
        eventually(lambda: len(member.beat()) == 2, "the assignment of both topics")
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic.name)], timeout_ms=9_000)
        assert client.ask(request, 6).responses[0].error_code == 0
        eventually(lambda: member.beat().keys() == {other.topic_id}, "the new assignment")
        coordinators = node.node.broker.late.share_states.coordinators

        def left() -> set[Any]:
            return {key.topic_id for one in coordinators() for key in one.machine.states}

        eventually(lambda: topic.topic_id not in node.call(left), "the state is deleted")
        assert offsets(client, group).keys() == {(other.name, 0)}


def test_partitions_that_do_not_exist_are_described_at_once(node: RunningNode) -> None:
    with node.connect() as client:
        client.sock.settimeout(25)  # a share coordinator would be asked for 30 seconds
        rows = described_rows(client, new_group(), make_topic(client), [7, -1, 2**31 - 1])
        assert [(row.start_offset, row.lag, row.error_code) for row in rows] == [(-1, -1, 0)] * 3


def test_a_partition_named_thousands_of_times_is_asked_about_once(node: RunningNode) -> None:
    with node.connect() as client:
        topic = make_topic(client)
        member = joined(client, topic)
        (once,) = described_rows(client, member.group, topic, [0])
        times = 20_000
        rows = described_rows(client, member.group, topic, [0] * times)
        assert rows == [once] * times
        member.leave()


def test_a_start_offset_that_makes_no_sense_has_no_lag(node: RunningNode) -> None:
    with node.connect() as client:
        topic = make_topic(client)
        member = joined(client, topic)
        assert initialize(client, topic.topic_id, member.group, 5, -(1 << 63)).error_code == 0
        (row,) = described_rows(client, member.group, topic, [0])
        assert (row.start_offset, row.lag, row.error_code) == (-(1 << 63), -1, 0)
        member.leave()
