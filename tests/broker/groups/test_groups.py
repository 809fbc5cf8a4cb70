"""Groups over a served node: every version of every request, several members, restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fencepost.machines.group.partitioner import partition_for
from fencepost.wire.api import (
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from fencepost.wire.api.delete_topics import DeleteTopicState
from fencepost.wire.api.leave_group import MemberIdentity
from fencepost.wire.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from fencepost.wire.api.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from fencepost.wire.api.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from fencepost.wire.api.sync_group import SyncGroupRequestAssignment
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from ...waiting import eventually
from ..conftest import RunningNode
from ..listener_fixtures import Client
from ..topic_requests import make_topic
from .group_requests import (
    commit,
    commit_request,
    coordinated,
    fetched,
    hosted_of,
    join,
    join_request,
    new_group,
    stable,
    sync,
)

ALL_IN_PROTOCOL = "range"


@pytest.fixture(scope="module")
def ready(node: RunningNode) -> RunningNode:
    """The module's node, with its coordinators."""
    with node.connect() as client:
        coordinated(client)
    return node


@pytest.fixture
def client(ready: RunningNode) -> Iterator[Client]:
    with ready.connect() as connected:
        yield connected


# Finding the coordinator


def test_the_first_request_for_a_group_creates_the_topic_and_is_to_be_sent_again(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory()
    assert "__consumer_offsets" not in running.node.image.topics_by_name
    with running.connect() as client:
        first = client.ask(FindCoordinatorRequest(key="a"), 3)
        assert (first.error_code, first.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        eventually(lambda: "__consumer_offsets" in running.node.image.topics_by_name)
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"])
        answer = client.ask(request, 6)
        assert [(c.key, c.error_code, c.node_id, c.port) for c in answer.coordinators] == [
            ("a", 0, 1, running.port),
            ("b", 0, 1, running.port),
        ]
    topic = running.node.image.topics_by_name["__consumer_offsets"]
    assert len(topic.partitions) == 3
    configs = running.node.image.topic_configs("__consumer_offsets")
    assert configs["cleanup.policy"] == "compact"


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator(client: Client, ready: RunningNode, version: int) -> None:
    if version < 4:
        answer = client.ask(FindCoordinatorRequest(key="g"), version)
    else:
        (answer,) = client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), version).coordinators
    assert (answer.error_code, answer.node_id, answer.host) == (0, 1, "127.0.0.1")
    assert answer.port == ready.port


@pytest.mark.parametrize(("version", "key_type"), [(1, 2), (4, 9), (6, 2), (6, -1)])
def test_other_coordinators_are_not_offered(client: Client, version: int, key_type: int) -> None:
    request = FindCoordinatorRequest(key_type=key_type)
    if version < 4:
        request.key = "share"
        answer = client.ask(request, version)
    else:
        request.coordinator_keys = ["share"]
        (answer,) = client.ask(request, version).coordinators
    assert (answer.error_code, answer.node_id) == (ErrorCode.INVALID_REQUEST, -1)
    assert "share partition" in answer.error_message


def test_find_coordinator_of_nothing(client: Client) -> None:
    assert client.ask(FindCoordinatorRequest(coordinator_keys=[]), 6).coordinators == []


# Every version


@pytest.mark.parametrize("version", range(10))
def test_join_group(client: Client, version: int) -> None:
    answer = join(client, new_group(), version)
    assert answer.generation_id == 1 and answer.leader == answer.member_id
    assert answer.protocol_name == "range"
    assert [member.member_id for member in answer.members] == [answer.member_id]
    assert answer.member_id.startswith("test-")


@pytest.mark.parametrize("version", range(10))
def test_join_group_refused(client: Client, version: int) -> None:
    answer = client.ask(join_request("", version=version), version)
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID
    answer = client.ask(join_request(new_group(), "ghost", version), version)
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "ghost")
    assert answer.protocol_name == ("" if version < 7 else None)


@pytest.mark.parametrize("version", range(6))
def test_sync_group(client: Client, version: int) -> None:
    group = new_group()
    joined = join(client, group)
    answer = sync(client, group, joined, version)
    assert (answer.error_code, answer.assignment) == (0, b"mine")
    joined.generation_id = 7
    assert sync(client, group, joined, version).error_code == ErrorCode.ILLEGAL_GENERATION
    assert sync(client, "", joined, version).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(5))
def test_heartbeat(client: Client, version: int) -> None:
    group = new_group()
    joined = stable(client, group)
    request = HeartbeatRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id
    )
    assert client.ask(request, version).error_code == 0
    request.member_id = "ghost"
    assert client.ask(request, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    request.group_id = ""
    assert client.ask(request, version).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(6))
def test_leave_group(client: Client, version: int) -> None:
    group = new_group()
    joined = stable(client, group)
    for member_id, expected in ((joined.member_id, 0), ("ghost", ErrorCode.UNKNOWN_MEMBER_ID)):
        if version < 3:
            request = LeaveGroupRequest(group_id=group, member_id=member_id)
            assert client.ask(request, version).error_code == expected
        else:
            request = LeaveGroupRequest(
                group_id=group, members=[MemberIdentity(member_id=member_id)]
            )
            answer = client.ask(request, version)
            assert (answer.error_code, answer.members[0].error_code) == (0, expected)
    answer = client.ask(LeaveGroupRequest(), version)
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(2, 11))
def test_offset_commit(client: Client, version: int) -> None:
    group, topic = new_group(), make_topic(client, 2)
    assert commit(client, group, topic, 42, version, generation_id_or_member_epoch=-1) == 0
    assert fetched(client, group) == {(topic.name, 0): 42}
    missing = commit(client, group, topic, 1, version, partition=2)
    assert missing == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    nowhere = type(topic)(name="nowhere", topic_id=Uuid(b"?" * 16))
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(client, group, nowhere, 1, version) == unknown


def test_a_commit_of_some_that_exist_and_some_that_do_not_is_answered_in_order(
    client: Client,
) -> None:
    group, topic = new_group(), make_topic(client, 2)
    request = commit_request(group, topic, 5)
    (there,) = request.topics
    missing = OffsetCommitRequestTopic(name="nowhere", partitions=there.partitions)
    odd = OffsetCommitRequestPartition(partition_index=9, committed_offset=1)
    mixed = OffsetCommitRequestTopic(name=topic.name, partitions=[odd, *there.partitions])
    request.topics = [missing, mixed]
    answer = client.ask(request, 9)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [[p.error_code for p in t.partitions] for t in answer.topics] == [
        [unknown],
        [unknown, 0],
    ]


@pytest.mark.parametrize("version", range(1, 11))
def test_offset_fetch(client: Client, version: int) -> None:
    group, topic = new_group(), make_topic(client, 2)
    commit(client, group, topic, 42)
    if version < 8:
        topics = [OffsetFetchRequestTopic(name=topic.name, partition_indexes=[0, 1])]
        answer = client.ask(OffsetFetchRequest(group_id=group, topics=topics), version)
    else:
        named = {"topic_id": topic.topic_id} if version >= 10 else {"name": topic.name}
        wanted = OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestTopics(partition_indexes=[0, 1], **named)]
        )
        (answer,) = client.ask(OffsetFetchRequest(groups=[wanted]), version).groups
    assert answer.error_code == 0
    (found,) = answer.topics
    assert [(p.partition_index, p.committed_offset, p.metadata) for p in found.partitions] == [
        (0, 42, "note"),
        (1, -1, ""),
    ]
    if version >= 10:
        assert found.topic_id == topic.topic_id


@pytest.mark.parametrize("version", [*range(2, 11)])
def test_offset_fetch_of_everything(client: Client, version: int) -> None:
    group, topic = new_group(), make_topic(client, 2)
    assert fetched(client, group, version) == {}
    commit(client, group, topic, 42)
    name = str(topic.topic_id) if version >= 10 else topic.name
    assert fetched(client, group, version) == {(name, 0): 42}


def test_offset_fetch_of_several_groups_and_of_none(client: Client) -> None:
    topic = make_topic(client, 2)
    groups = [new_group() for _ in range(5)]
    for offset, group in enumerate(groups):
        commit(client, group, topic, offset)
    wanted = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    answer = client.ask(OffsetFetchRequest(groups=wanted), 9)
    assert [g.group_id for g in answer.groups] == groups
    offsets = [g.topics[0].partitions[0].committed_offset for g in answer.groups]
    assert offsets == [0, 1, 2, 3, 4]
    assert client.ask(OffsetFetchRequest(groups=[]), 9).groups == []


def test_offset_fetch_of_an_unknown_topic_id(client: Client) -> None:
    topics = [OffsetFetchRequestTopics(topic_id=Uuid(b"?" * 16), partition_indexes=[3])]
    wanted = OffsetFetchRequestGroup(group_id=new_group(), topics=topics)
    (answer,) = client.ask(OffsetFetchRequest(groups=[wanted]), 10).groups
    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.committed_offset) == (ErrorCode.UNKNOWN_TOPIC_ID, -1)


def test_offset_delete(client: Client) -> None:
    group, topic = new_group(), make_topic(client, 2)
    for partition in (0, 1):
        commit(client, group, topic, 1, partition=partition)
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
            )
            for name, indexes in ((topic.name, (0, 7)), ("nowhere", (0,)))
        ],
    )
    answer = client.ask(request, 0)
    assert answer.error_code == 0
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {
        (t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions
    } == {(topic.name, 0): 0, (topic.name, 7): unknown, ("nowhere", 0): unknown}
    assert fetched(client, group) == {(topic.name, 1): 1}
    request.topics = [
        OffsetDeleteRequestTopic(
            name=topic.name, partitions=[OffsetDeleteRequestPartition(partition_index=1)]
        )
    ]
    for _ in range(2):
        assert client.ask(request, 0).error_code == 0, "it stays, empty"
    (described,) = client.ask(DescribeGroupsRequest(groups=[group]), 6).groups
    assert described.group_state == "Empty"
    (deleted,) = client.ask(DeleteGroupsRequest(groups_names=[group]), 2).results
    assert deleted.error_code == 0
    request.group_id = new_group()
    assert client.ask(request, 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    request.group_id = ""
    assert client.ask(request, 0).error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(7))
def test_describe_groups(client: Client, version: int) -> None:
    group = new_group()
    joined = stable(client, group)
    request = DescribeGroupsRequest(groups=[group, "nowhere"])
    if version >= 3:
        request.include_authorized_operations = True
    first, second = client.ask(request, version).groups
    assert (first.group_state, first.protocol_data, first.error_code) == ("Stable", "range", 0)
    (member,) = first.members
    assert (member.member_id, member.client_host) == (joined.member_id, "/127.0.0.1")
    assert member.member_assignment == b"mine"
    assert (first.authorized_operations > 0) == (version >= 3)
    gone = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0
    assert (second.group_id, second.group_state, second.error_code) == ("nowhere", "Dead", gone)
    assert client.ask(DescribeGroupsRequest(), version).groups == []


@pytest.mark.parametrize("version", range(6))
def test_list_groups(client: Client, version: int) -> None:
    group, topic = new_group(), make_topic(client, 2)
    commit(client, group, topic, 1)
    request = ListGroupsRequest()
    if version >= 4:
        request.states_filter = ["empty"]
    if version >= 5:
        request.types_filter = ["Classic"]
    answer = client.ask(request, version)
    (listed,) = [one for one in answer.groups if one.group_id == group]
    assert listed.protocol_type == ""
    assert listed.group_state == ("Empty" if version >= 4 else "")
    assert listed.group_type == ("classic" if version >= 5 else "")
    if version >= 4:
        request.states_filter = ["Stable"]
        assert group not in [one.group_id for one in client.ask(request, version).groups]


@pytest.mark.parametrize("version", range(4))
def test_delete_groups(client: Client, version: int) -> None:
    topic, group, busy = make_topic(client, 2), new_group(), new_group()
    commit(client, group, topic, 1)
    stable(client, busy)
    request = DeleteGroupsRequest(groups_names=[group, busy, "nowhere", group])
    results = client.ask(request, version).results
    assert [(r.group_id, r.error_code) for r in results] == [
        (group, 0),
        (busy, ErrorCode.NON_EMPTY_GROUP),
        ("nowhere", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert {r.error_message for r in results} == {None}, "as Kafka 4.4.0 says it"
    assert fetched(client, group) == {}
    assert client.ask(DeleteGroupsRequest(), version).results == []


# Several members on several connections


def test_two_members_rebalance_and_each_gets_its_own(ready: RunningNode) -> None:
    group = new_group()
    with ready.connect() as first, ready.connect() as second:
        one = stable(first, group)
        answer = second.ask(join_request(group), 9)
        second.send(join_request(group, answer.member_id), 9)

        def told_to_rejoin() -> bool:
            beat = HeartbeatRequest(
                group_id=group, generation_id=one.generation_id, member_id=one.member_id
            )
            return first.ask(beat, 4).error_code == ErrorCode.REBALANCE_IN_PROGRESS

        eventually(told_to_rejoin, "the rebalance")
        leader = first.ask(join_request(group, one.member_id), 9)
        _, follower = second.receive(11, 9)
        assert leader.generation_id == follower.generation_id == 2
        assert {m.member_id for m in leader.members} == {one.member_id, follower.member_id}
        base = {"group_id": group, "generation_id": 2, "protocol_type": "consumer"}
        waiting = SyncGroupRequest(
            member_id=follower.member_id, protocol_name=ALL_IN_PROTOCOL, **base
        )
        second.send(waiting, 5)
        assignments = [
            SyncGroupRequestAssignment(member_id=one.member_id, assignment=b"1"),
            SyncGroupRequestAssignment(member_id=follower.member_id, assignment=b"2"),
        ]
        mine = first.ask(
            SyncGroupRequest(
                member_id=one.member_id,
                protocol_name=ALL_IN_PROTOCOL,
                assignments=assignments,
                **base,
            ),
            5,
        )
        _, theirs = second.receive(14, 5)
        assert (mine.assignment, theirs.assignment) == (b"1", b"2")


def test_a_member_that_disconnects_is_removed_after_its_session(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(group_min_session_timeout_ms=50)
    with running.connect() as client:
        coordinated(client)
        joined = stable(client, "g")
        client.ask(join_request("g", joined.member_id, session_ms=50), 9)

        def is_empty() -> bool:
            (group,) = client.ask(DescribeGroupsRequest(groups=["g"]), 5).groups
            return group.group_state == "Empty"

        eventually(is_empty, "the group's emptiness")


# Restarts and deleted topics


def test_groups_survive_a_restart(node_factory: Callable[..., RunningNode]) -> None:
    running = node_factory()
    with running.connect() as client:
        coordinated(client)
        topic = make_topic(client, 2)
        joined = stable(client, "g", session_ms=60_000)
        assert (
            commit(
                client,
                "g",
                topic,
                42,
                member_id=joined.member_id,
                generation_id_or_member_epoch=joined.generation_id,
            )
            == 0
        )
        commit(client, "simple", topic, 7)
    running.restart()
    with running.connect() as client:
        coordinated(client)
        assert fetched(client, "g") == {(topic.name, 0): 42}
        assert fetched(client, "simple") == {(topic.name, 0): 7}
        (group,) = client.ask(DescribeGroupsRequest(groups=["g"]), 5).groups
        assert (group.group_state, len(group.members)) == ("Stable", 1)
        assert sync(client, "g", joined).assignment == b"mine"


def test_offsets_of_a_deleted_topic_are_forgotten(client: Client) -> None:
    topic, group = make_topic(client, 2), new_group()
    commit(client, group, topic, 1)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic.name)], timeout_ms=60_000)
    assert client.ask(request, 6).responses[0].error_code == 0
    eventually(lambda: fetched(client, group) == {}, "the forgetting")
    again = make_topic(client, 2, name=topic.name)
    assert fetched(client, group) == {}
    assert commit(client, group, again, 2) == 0


def test_groups_are_spread_over_the_partitions(ready: RunningNode) -> None:
    for group in ("a", "b", "some group"):
        assert hosted_of(ready, group).index == partition_for(group, 3)
