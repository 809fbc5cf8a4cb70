"""Groups over a served node: every version of every request, and what becomes of groups when the
node restarts, topics go, and the disk refuses."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.batch.control import build_end_txn_marker
from fencepost.batch.header import read_header
from fencepost.batch.records import build_batch
from fencepost.broker.group_host import GroupHost
from fencepost.broker.group_shard import BATCHES_PER_TURN, GroupShard
from fencepost.machines.group import partition_for
from fencepost.wire.api import (
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from fencepost.wire.api.create_topics import CreatableTopic
from fencepost.wire.api.delete_topics import DeleteTopicState
from fencepost.wire.api.join_group import JoinGroupRequestProtocol
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
from fencepost.wire.message import Message
from fencepost.wire.records.group import (
    OffsetCommitKey,
    OffsetCommitValue,
    ShareGroupMetadataKey,
    StreamsGroupTopologyKey,
    encode_key,
    encode_value,
)
from fencepost.wire.types import Uuid

from ..waiting import eventually
from .conftest import RunningNode
from .door import Client

COUNTER = iter(range(1_000_000))
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
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


def coordinated(client: Client, group: str = "any") -> None:
    """Have coordinators, and wait until the group's has loaded."""
    answer = client.ask(FindCoordinatorRequest(key=group), 3)
    assert answer.error_code == 0
    eventually(lambda: client.ask(ListGroupsRequest(), 5).error_code == 0, "loading")


def new_group() -> str:
    return f"group-{next(COUNTER)}"


def make_topic(client: Client, partitions: int = 2, name: str | None = None) -> Any:
    topic = CreatableTopic(
        name=name or f"topic-{next(COUNTER)}", num_partitions=partitions, replication_factor=1
    )
    (made,) = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7).topics
    assert made.error_code == 0
    return made


def join_request(group: str, member_id: str = "", version: int = 9, **said: Any) -> Message:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=said.pop("session_ms", 10_000),
        rebalance_timeout_ms=60_000 if version >= 1 else -1,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")],
        **said,
    )


def join(client: Client, group: str, version: int = 9, **said: Any) -> Any:
    """Join as a new member, as clients of that version do; the answer that lets one in."""
    answer = client.ask(join_request(group, version=version, **said), version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        assert version >= 4
        answer = client.ask(join_request(group, answer.member_id, version, **said), version)
    assert answer.error_code == 0, answer
    return answer


def sync(
    client: Client, group: str, joined: Any, version: int = 5, assignment: bytes = b"mine"
) -> Any:
    return client.ask(sync_request(group, joined, joined.member_id, version, assignment), version)


def sync_request(
    group: str, joined: Any, member_id: str, version: int = 5, assignment: bytes = b"mine"
) -> SyncGroupRequest:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=member_id,
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)],
    )
    if version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    return request


def stable(client: Client, group: str, **said: Any) -> Any:
    """A stable group of one member; what JoinGroup said."""
    joined = join(client, group, **said)
    assert sync(client, group, joined).error_code == 0
    return joined


def commit_request(
    group: str, topic: Any, offset: int, version: int = 9, partition: int = 0, **said: Any
) -> Message:
    named = {"topic_id": topic.topic_id} if version >= 10 else {"name": topic.name}
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_metadata="note",
                    )
                ],
                **named,
            )
        ],
        **said,
    )


def commit(
    client: Client, group: str, topic: Any, offset: int, version: int = 9, **said: Any
) -> int:
    answer = client.ask(commit_request(group, topic, offset, version, **said), version)
    return answer.topics[0].partitions[0].error_code


def fetched(client: Client, group: str, version: int = 9) -> dict[tuple[str, int], int]:
    """All offsets of a group."""
    if version < 8:
        answer = client.ask(OffsetFetchRequest(group_id=group, topics=None), version)
        assert answer.error_code == 0
        topics = answer.topics
    else:
        groups = [OffsetFetchRequestGroup(group_id=group, topics=None)]
        (answer,) = client.ask(OffsetFetchRequest(groups=groups), version).groups
        assert answer.error_code == 0
        topics = answer.topics
    return {
        (topic.name or str(topic.topic_id), one.partition_index): one.committed_offset
        for topic in topics
        for one in topic.partitions
    }


# Finding the coordinator


def test_the_first_request_creates_the_topic_and_is_answered_with_the_coordinator(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory()
    assert "__consumer_offsets" not in running.node.image.topics_by_name
    with running.connect() as client, running.connect() as other:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"])
        client.send(request, 6)
        other.send(request, 6)
        answers = [one.receive(10, 6)[1] for one in (client, other)]
    for answer in answers:
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


@pytest.mark.parametrize(("version", "key_type"), [(1, 1), (3, 1), (4, 1), (6, 1), (6, 2), (6, 9)])
def test_other_coordinators_are_not_offered(client: Client, version: int, key_type: int) -> None:
    request = FindCoordinatorRequest(key_type=key_type)
    if version < 4:
        request.key = "tx"
        answer = client.ask(request, version)
    else:
        request.coordinator_keys = ["tx"]
        (answer,) = client.ask(request, version).coordinators
    final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    expected = final if key_type == 1 else ErrorCode.INVALID_REQUEST
    assert (answer.error_code, answer.node_id) == (expected, -1)
    assert "not of transactions" in answer.error_message


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
    group, topic = new_group(), make_topic(client)
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
    group, topic = new_group(), make_topic(client)
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
    group, topic = new_group(), make_topic(client)
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
    group, topic = new_group(), make_topic(client)
    assert fetched(client, group, version) == {}
    commit(client, group, topic, 42)
    name = str(topic.topic_id) if version >= 10 else topic.name
    assert fetched(client, group, version) == {(name, 0): 42}


def test_offset_fetch_of_several_groups_and_of_none(client: Client) -> None:
    topic = make_topic(client)
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
    group, topic = new_group(), make_topic(client)
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
    group, topic = new_group(), make_topic(client)
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
    if version >= 4:
        request.states_filter = ["Stable"]
        assert group not in [one.group_id for one in client.ask(request, version).groups]


@pytest.mark.parametrize("version", range(3))
def test_delete_groups(client: Client, version: int) -> None:
    topic, group, busy = make_topic(client), new_group(), new_group()
    commit(client, group, topic, 1)
    stable(client, busy)
    request = DeleteGroupsRequest(groups_names=[group, busy, "nowhere", group])
    assert [(r.group_id, r.error_code) for r in client.ask(request, version).results] == [
        (group, 0),
        (busy, ErrorCode.NON_EMPTY_GROUP),
        ("nowhere", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
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


def test_a_member_that_hangs_up_is_removed_after_its_session(
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


# Restarts, deleted topics, failures


def test_groups_survive_a_restart(node_factory: Callable[..., RunningNode]) -> None:
    running = node_factory()
    with running.connect() as client:
        coordinated(client)
        topic = make_topic(client)
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
    topic, group = make_topic(client), new_group()
    commit(client, group, topic, 1)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic.name)], timeout_ms=60_000)
    assert client.ask(request, 6).responses[0].error_code == 0
    eventually(lambda: fetched(client, group) == {}, "the forgetting")
    again = make_topic(client, name=topic.name)
    assert fetched(client, group) == {}
    assert commit(client, group, again, 2) == 0


def shard_of(running: RunningNode, group: str) -> GroupShard:
    def find() -> GroupShard:
        shard = running.node.groups.shard_of(group)
        assert isinstance(shard, GroupShard)
        return shard

    return running.call(find)


def reload(running: RunningNode, shard: GroupShard) -> None:
    """Have the shard load again, and wait for it."""

    def again() -> None:
        shard.close()
        shard.load()

    running.call(again)
    eventually(lambda: running.call(lambda: shard.state) is ErrorCode.NONE, "loading")


def test_while_a_shard_loads_clients_are_told_to_wait(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as client:
        coordinated(client)
        topic = make_topic(client)
        joined = stable(client, "g")
        shard = shard_of(running, "g")
        running.call(shard.close, LOADING)
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
        assert client.ask(beat, 4).error_code == 0, "nobody is missed yet"
        assert client.ask(join_request("g"), 9).error_code == LOADING
        assert sync(client, "g", joined).error_code == LOADING
        assert client.ask(LeaveGroupRequest(group_id="g"), 5).error_code == LOADING
        assert commit(client, "g", topic, 1) == LOADING
        assert client.ask(ListGroupsRequest(), 5).error_code == LOADING
        assert client.ask(DescribeGroupsRequest(groups=["g"]), 5).groups[0].error_code == LOADING
        deleted = client.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
        assert deleted.results[0].error_code == LOADING
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        old = client.ask(OffsetFetchRequest(group_id="g", topics=topics), 1)
        assert old.topics[0].partitions[0].error_code == LOADING
        new = client.ask(OffsetFetchRequest(group_id="g", topics=topics), 7)
        assert (new.error_code, new.topics) == (LOADING, [])
        wanted = [OffsetFetchRequestGroup(group_id="g", topics=None)]
        assert client.ask(OffsetFetchRequest(groups=wanted), 9).groups[0].error_code == LOADING
        reload(running, shard)
        assert sync(client, "g", joined).error_code == 0


def test_without_a_topic_nobody_is_the_coordinator(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory()
    with running.connect() as client:
        refused = client.ask(join_request("g"), 9)
        assert refused.error_code == ErrorCode.NOT_COORDINATOR
        assert client.ask(ListGroupsRequest(), 5).groups == []


def test_losing_leadership_answers_who_waits(node_factory: Callable[..., RunningNode]) -> None:
    running = node_factory(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=60_000)
    with running.connect() as client:
        coordinated(client)
        answer = client.ask(join_request("g"), 9)
        client.send(join_request("g", answer.member_id), 9)
        shard = shard_of(running, "g")
        eventually(lambda: running.call(lambda: waiting_in(shard)) == 1, "the wait")
        groups: GroupHost = running.node.groups
        running.call(groups.lost_leadership, shard.hosted)
        _, refused = client.receive(11, 9)
        assert refused.error_code == ErrorCode.NOT_COORDINATOR
        running.call(groups.became_leader, shard.hosted)
        coordinated(client)


def waiting_in(shard: GroupShard) -> int:
    """How many requests have no answer yet."""
    return len(shard._unanswered)


@contextlib.contextmanager
def too_few_in_sync(running: RunningNode, shard: GroupShard) -> Iterator[None]:
    """The partition machine refuses every batch with NOT_ENOUGH_REPLICAS."""

    def set_isr(*members: int) -> None:
        reign = shard.hosted.machine._reign
        assert reign is not None
        reign.isr = frozenset(members)

    running.call(set_isr)
    yield
    running.call(set_isr, 1)


def test_a_write_that_fails_has_not_happened(node_factory: Callable[..., RunningNode]) -> None:
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as client:
        coordinated(client)
        topic = make_topic(client)
        assert commit(client, "g", topic, 1) == 0
        shard = shard_of(running, "g")
        with too_few_in_sync(running, shard):
            refused = commit(client, "g", topic, 2)
            assert refused == ErrorCode.COORDINATOR_NOT_AVAILABLE
        coordinated(client)
        assert fetched(client, "g") == {(topic.name, 0): 1}
        assert commit(client, "g", topic, 3) == 0


def test_a_mistake_of_ours_costs_the_shard_its_soft_state_only(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as client:
        coordinated(client)
        topic = make_topic(client)
        commit(client, "g", topic, 1)
        shard = shard_of(running, "g")
        heard: list[Any] = []

        def decide(coordinator: Any, token: Any) -> Any:
            raise AssertionError("a mistake")

        running.call(shard.submit, decide, lambda error, reply: heard.append((error, reply)))
        assert heard == [(ErrorCode.UNKNOWN_SERVER_ERROR, None)]
        coordinated(client)
        assert fetched(client, "g") == {(topic.name, 0): 1}


def test_a_mistake_of_ours_is_told_to_everybody_whom_the_decision_was_to_answer(
    node_factory: Callable[..., RunningNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision takes who waits out of the coordinator, and may then come to nothing."""
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as leader, running.connect() as follower:
        coordinated(leader)
        joined = stable(leader, "g")
        new = follower.ask(join_request("g"), 9)
        follower.send(join_request("g", new.member_id), 9)
        shard = shard_of(running, "g")
        eventually(lambda: running.call(lambda: waiting_in(shard)) == 1, "the follower's JoinGroup")
        rejoined = leader.ask(join_request("g", joined.member_id), 9)
        assert follower.receive(11, 9)[1].generation_id == rejoined.generation_id == 2
        follower.send(sync_request("g", rejoined, new.member_id), 5)
        eventually(lambda: running.call(lambda: waiting_in(shard)) == 1, "the follower's SyncGroup")

        def encode(records: Any) -> Any:
            raise AssertionError("a mistake")

        monkeypatch.setattr(shard, "_encode", encode)
        assert sync(leader, "g", rejoined).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert follower.receive(14, 5)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_requests_that_arrive_while_one_is_answered_come_after_it(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(offsets_topic_num_partitions=1, log_flush_before_ack="false")
    with running.connect() as client:
        coordinated(client)
        make_topic(client, name="t")
        shard = shard_of(running, "g")
        order: list[str] = []

        def ask(name: str, then: Callable[[], None] = lambda: None) -> None:
            wanted = OffsetFetchRequestGroup(group_id=name, topics=None)

            def decide(coordinator: Any, token: Any) -> Any:
                order.append(f"decide {name}")
                return coordinator.decide_offset_fetch(wanted, False, token)

            def on_reply(error: ErrorCode, reply: Any) -> None:
                then()
                order.append(f"answered {name}")

            shard.submit(decide, on_reply)

        running.call(lambda: ask("a", lambda: ask("b")))
        assert order == ["decide a", "answered a", "decide b", "answered b"]


def test_a_shard_reads_what_others_wrote(node_factory: Callable[..., RunningNode]) -> None:
    """Other kinds of groups, transactions, tombstones, and more than one turn's worth of them."""
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as client:
        coordinated(client)
        make_topic(client, partitions=3, name="t")
        shard = shard_of(running, "g")

        def offset(group: str, number: int, partition: int = 0) -> tuple[bytes, bytes]:
            key = OffsetCommitKey(group=group, topic="t", partition=partition)
            value = OffsetCommitValue(offset=number, metadata="", commit_timestamp=1)
            return encode_key(key), encode_value(value, 3)

        def tx(producer_id: int) -> dict[str, Any]:
            return {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "base_sequence": 0,
                "transactional": True,
            }

        def end(producer_id: int, *, committed: bool) -> bytearray:
            return build_end_txn_marker(
                producer_id=producer_id,
                producer_epoch=0,
                committed=committed,
                coordinator_epoch=0,
                timestamp_ms=1,
            )

        batches = [
            *(build_batch([offset("g", number)]) for number in range(2 * BATCHES_PER_TURN + 3)),
            build_batch(
                [
                    (encode_key(ShareGroupMetadataKey(group_id="s")), b"\0\0 of early access"),
                    (encode_key(StreamsGroupTopologyKey(group_id="s")), b"\0\x09 of tomorrow"),
                    (b"\0\x12 given up", b"\0\0"),
                    (b"\x03\xe7 unheard of", None),
                    offset("g", 77, 1),
                ]
            ),
            build_batch([offset("gone", 1)]),
            build_batch([(offset("gone", 1)[0], None)]),
            build_batch([offset("done", 5)], **tx(1)),
            end(1, committed=True),
            build_batch([offset("undone", 5)], **tx(2)),
            end(2, committed=False),
            build_batch([offset("open", 5, 2)], **tx(3)),
        ]

        def append() -> None:
            for batch in batches:
                shard.hosted.log.append_as_leader(batch, read_header(batch), 0, 1)
            running.node.ports.request_flush(shard.hosted.key)

        running.call(append)
        reload(running, shard)
        assert fetched(client, "g") == {("t", 0): 2 * BATCHES_PER_TURN + 2, ("t", 1): 77}
        assert fetched(client, "done") == {("t", 0): 5}
        assert fetched(client, "gone") == fetched(client, "undone") == {}
        wanted = OffsetFetchRequestGroup(
            group_id="open",
            topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[2])],
        )
        request = OffsetFetchRequest(groups=[wanted], require_stable=True)
        (answer,) = client.ask(request, 9).groups
        assert answer.topics[0].partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_a_log_that_makes_no_sense_takes_its_groups_out_of_service(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as client:
        coordinated(client)
        shard = shard_of(running, "g")
        batch = build_batch([(b"\0\x01rubbish", b"\0\0")])

        def append() -> None:
            shard.hosted.log.append_as_leader(batch, read_header(batch), 0, 1)
            running.node.ports.request_flush(shard.hosted.key)
            shard.close()
            shard.load()

        running.call(append)
        eventually(lambda: running.call(lambda: shard.state) is not LOADING, "the end of loading")
        refused = client.ask(join_request("g"), 9)
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_what_was_read_and_not_yet_flushed_is_waited_for(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as client:
        coordinated(client)
        make_topic(client, name="t")
        shard = shard_of(running, "g")
        key = OffsetCommitKey(group="g", topic="t", partition=0)
        value = OffsetCommitValue(offset=4, metadata="", commit_timestamp=1)
        batch = build_batch([(encode_key(key), encode_value(value, 3))])

        def append() -> None:
            shard.close()
            shard.hosted.log.append_as_leader(batch, read_header(batch), 0, 1)
            shard.load()

        running.call(append)
        for _ in range(5):
            assert client.ask(join_request("g"), 9).error_code == LOADING
        running.call(lambda: running.node.ports.request_flush(shard.hosted.key))
        eventually(lambda: running.call(lambda: shard.state) is ErrorCode.NONE, "loading")
        assert fetched(client, "g") == {("t", 0): 4}


def test_a_large_commit_is_written_in_several_batches(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(offsets_topic_num_partitions=1)
    with running.connect() as client:
        coordinated(client)
        topic = make_topic(client, partitions=400)
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=index, committed_metadata="x" * 4_000
            )
            for index in range(400)
        ]
        request = OffsetCommitRequest(
            group_id="g",
            topics=[OffsetCommitRequestTopic(name=topic.name, partitions=partitions)],
        )
        answer = client.ask(request, 9)
        assert {p.error_code for p in answer.topics[0].partitions} == {0}
        shard = shard_of(running, "g")
        limit = shard.hosted.log.config.max_message_bytes

        def sizes() -> list[int]:
            source = shard.hosted.log
            batches = source.read_all_batches(source.start_offset, source.end_offset)
            return [header.size_bytes for header, _ in batches]

        assert max(running.call(sizes)) <= limit and sum(running.call(sizes)) > limit
        reload(running, shard)
        assert len(fetched(client, "g")) == 400


def test_groups_are_spread_over_the_partitions(ready: RunningNode) -> None:
    for group in ("a", "b", "some group"):
        shard = shard_of(ready, group)
        assert shard.hosted.index == partition_for(group, 3)


def test_acknowledging_from_the_page_cache_works_the_same(
    node_factory: Callable[..., RunningNode],
) -> None:
    running = node_factory(log_flush_before_ack="false")
    with running.connect() as client:
        coordinated(client)
        topic = make_topic(client)
        stable(client, "g")
        assert commit(client, "h", topic, 3) == 0
        assert fetched(client, "h") == {(topic.name, 0): 3}
