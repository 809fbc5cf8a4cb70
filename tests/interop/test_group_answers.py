"""The same group requests to Fencepost and to Apache Kafka: the same answers.

Every story runs against both, so an expectation that is wrong fails on Kafka. Member ids, texts and
coordinator addresses are each broker's own and are not compared. Where Fencepost differs on purpose
(the handlers' headers say where) there is no story here.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.client.connection import Connection
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
from fencepost.wire.errors import ErrorCode as E
from fencepost.wire.records.consumer import ConsumerProtocolSubscription, encode_prefixed
from fencepost.wire.types import Uuid

from ..waiting import DEADLINE_MS, eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]

UNKNOWN_ID = Uuid(b"no topic has it!")


def subscription(*topics: str) -> bytes:
    return encode_prefixed(ConsumerProtocolSubscription(topics=list(topics)), 1)


def fresh(what: str = "group") -> str:
    return f"{what}{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module")
def address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    with Connection(host, int(port), timeout_ms=DEADLINE_MS) as connection:
        request = FindCoordinatorRequest(key="any")
        eventually(lambda: connection.request(request, 3).error_code == 0)
        eventually(lambda: connection.request(ListGroupsRequest(), 4).error_code == 0)
    return host, int(port)


@pytest.fixture
def broker(address: tuple[str, int]) -> Iterator[Connection]:
    with Connection(*address, client_id="story", timeout_ms=DEADLINE_MS) as connection:
        yield connection


@pytest.fixture
def other(address: tuple[str, int]) -> Iterator[Connection]:
    """A second client's connection."""
    with Connection(*address, client_id="other", timeout_ms=DEADLINE_MS) as connection:
        yield connection


@pytest.fixture
def group(broker: Connection) -> str:
    """The id of a group that was not used before, whose coordinator is loaded."""
    name = fresh()
    beat = HeartbeatRequest(group_id=name, generation_id=1, member_id="x")
    eventually(lambda: broker.request(beat, 4).error_code == E.UNKNOWN_MEMBER_ID)
    return name


@pytest.fixture(scope="module")
def topic(address: tuple[str, int]) -> Any:
    """A topic of two partitions: its name and id."""
    with Connection(*address, timeout_ms=DEADLINE_MS) as broker:
        return make_topic(broker, fresh("topic"))


def make_topic(broker: Connection, name: str) -> Any:
    wanted = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    (made,) = broker.request(CreateTopicsRequest(topics=[wanted]), 7).topics
    assert made.error_code == 0
    probe = fresh("probe")
    eventually(lambda: commit(broker, probe, name) == 0)
    return made


# Requests


def join_request(
    group: str,
    member_id: str = "",
    *,
    protocols: dict[str, bytes] | None = None,
    protocol_type: str = "consumer",
    version: int = 9,
    session_ms: int = 10_000,
    **said: Any,
) -> JoinGroupRequest:
    if protocols is None:
        protocols = {"range": subscription("t")}
    return JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=20_000 if version >= 1 else -1,
        protocol_type=protocol_type,
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()
        ],
        **said,
    )


def join(broker: Connection, group: str, member_id: str = "", version: int = 9, **said: Any) -> Any:
    return broker.request(join_request(group, member_id, version=version, **said), version)


def enter(broker: Connection, group: str, version: int = 9, **said: Any) -> Any:
    """Join as a new member, through MEMBER_ID_REQUIRED where that is asked."""
    answer = join(broker, group, version=version, **said)
    if answer.error_code == E.MEMBER_ID_REQUIRED:
        answer = join(broker, group, answer.member_id, version, **said)
    return answer


def sync_request(
    group: str,
    generation: int,
    member_id: str,
    assignments: dict[str, bytes] | None = None,
    *,
    version: int = 5,
    **said: Any,
) -> SyncGroupRequest:
    if version >= 5:
        said = {"protocol_type": "consumer", "protocol_name": "range", **said}
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        assignments=[
            SyncGroupRequestAssignment(member_id=name, assignment=data)
            for name, data in (assignments or {}).items()
        ],
        **said,
    )


def sync(broker: Connection, *said: Any, version: int = 5, **more: Any) -> Any:
    return broker.request(sync_request(*said, version=version, **more), version)


def heartbeat(broker: Connection, group: str, generation: int, member_id: str, **said: Any) -> int:
    request = HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member_id, **said
    )
    return broker.request(request, 4).error_code


def commit(
    broker: Connection,
    group: str,
    topic: str,
    offset: int = 5,
    *,
    partition: int = 0,
    version: int = 9,
    metadata: str | None = "note",
    topic_id: Uuid = Uuid.ZERO,
    **said: Any,
) -> int:
    named = {"topic_id": topic_id} if version >= 10 else {"name": topic}
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_metadata=metadata,
                    )
                ],
                **named,
            )
        ],
        **said,
    )
    answer = broker.request(request, version)
    return answer.topics[0].partitions[0].error_code


def offsets(broker: Connection, group: str) -> dict[tuple[str, int], tuple[int, int, str]]:
    wanted = OffsetFetchRequestGroup(group_id=group, topics=None)
    (answer,) = broker.request(OffsetFetchRequest(groups=[wanted]), 9).groups
    assert answer.error_code == 0
    return {
        (t.name, p.partition_index): (p.committed_offset, p.committed_leader_epoch, p.metadata)
        for t in answer.topics
        for p in t.partitions
    }


def describe(broker: Connection, group: str, version: int = 5) -> Any:
    return broker.request(DescribeGroupsRequest(groups=[group]), version).groups[0]


def form(broker: Connection, group: str, **said: Any) -> Any:
    """A stable group of one; what it was told in JoinGroup."""
    joined = enter(broker, group, **said)
    assert joined.error_code == 0
    instance = said.get("group_instance_id")
    answer = sync(
        broker,
        group,
        joined.generation_id,
        joined.member_id,
        {joined.member_id: b"all"},
        group_instance_id=instance,
        **({"protocol_type": said["protocol_type"]} if "protocol_type" in said else {}),
    )
    assert answer.error_code == 0
    return joined


# Joining


@pytest.mark.parametrize("version", range(10))
def test_a_new_member(broker: Connection, group: str, version: int) -> None:
    first = join(broker, group, version=version)
    if version >= 4:
        assert first.error_code == E.MEMBER_ID_REQUIRED
        assert (first.generation_id, first.leader, first.members) == (-1, "", [])
        first = join(broker, group, first.member_id, version)
    assert (first.error_code, first.generation_id, first.protocol_name) == (0, 1, "range")
    assert first.protocol_type == ("consumer" if version >= 7 else None)
    assert first.leader == first.member_id and not first.skip_assignment
    assert [(m.member_id, m.metadata) for m in first.members] == [
        (first.member_id, subscription("t"))
    ]
    assert describe(broker, group).group_state == "CompletingRebalance"


@pytest.mark.parametrize("version", [0, 3, 4, 6, 7, 9])
@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"session_ms": 5_999}, E.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, E.INVALID_SESSION_TIMEOUT),
        ({"member_id": "ghost"}, E.UNKNOWN_MEMBER_ID),
        ({"protocols": {}}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, E.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_join_that_is_refused(
    broker: Connection, group: str, version: int, said: dict[str, Any], error: E
) -> None:
    answer = join(broker, group, version=version, **said)
    assert answer.error_code == error
    assert (answer.generation_id, answer.leader, answer.members) == (-1, "", [])
    assert answer.protocol_name == (None if version >= 7 else "")
    if error is not E.INCONSISTENT_GROUP_PROTOCOL:
        assert answer.member_id == said.get("member_id", "")
    assert join(broker, "", version=version).error_code == E.INVALID_GROUP_ID


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": {"sticky": b""}}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "ghost"}, E.UNKNOWN_MEMBER_ID),
        ({"member_id": "ghost", "group_instance_id": "i"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_that_does_not_fit_in(
    broker: Connection, group: str, said: dict[str, Any], error: E
) -> None:
    form(broker, group)
    assert join(broker, group, **said).error_code == error
    assert describe(broker, group).group_state == "Stable"


def test_a_join_repeated_in_each_state(broker: Connection, group: str) -> None:
    first = enter(broker, group)
    again = join(broker, group, first.member_id)
    assert (again.generation_id, len(again.members)) == (1, 1)
    changed = join(broker, group, first.member_id, protocols={"range": subscription("u")})
    assert (changed.generation_id, changed.error_code) == (2, 0)
    sync(broker, group, 2, first.member_id, {})
    leading = join(broker, group, first.member_id, protocols={"range": subscription("u")})
    assert leading.generation_id == 3


def test_two_members_and_all_that_they_hear(
    broker: Connection, other: Connection, group: str
) -> None:
    one = form(broker, group)
    two_id = join(other, group).member_id
    waiting = other.send(join_request(group, two_id), 9)
    eventually(lambda: heartbeat(broker, group, 1, one.member_id) == E.REBALANCE_IN_PROGRESS)
    assert describe(broker, group).group_state == "PreparingRebalance"
    assert sync(broker, group, 1, one.member_id).error_code == E.REBALANCE_IN_PROGRESS
    leader, follower = join(broker, group, one.member_id), other.receive(waiting)
    assert (leader.generation_id, follower.generation_id) == (2, 2)
    assert {m.member_id for m in leader.members} == {one.member_id, two_id}
    assert follower.members == [] and follower.leader == one.member_id
    assert heartbeat(broker, group, 2, one.member_id) == 0
    assert heartbeat(broker, group, 1, one.member_id) == E.ILLEGAL_GENERATION
    waiting = other.send(sync_request(group, 2, two_id), 5)
    given = {one.member_id: b"1", two_id: b"2", "stranger": b"3"}
    mine, theirs = sync(broker, group, 2, one.member_id, given), other.receive(waiting)
    assert (mine.assignment, theirs.assignment) == (b"1", b"2")
    assert (mine.protocol_type, mine.protocol_name) == ("consumer", "range")
    unchanged = join(other, group, two_id)
    assert (unchanged.generation_id, unchanged.members, unchanged.error_code) == (2, [], 0)
    state = describe(broker, group)
    assert (state.group_state, state.protocol_data) == ("Stable", "range")
    assert {m.member_id: m.member_assignment for m in state.members} == {
        one.member_id: b"1",
        two_id: b"2",
    }
    left = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=two_id)])
    assert other.request(left, 5).members[0].error_code == 0
    assert heartbeat(broker, group, 2, one.member_id) == E.REBALANCE_IN_PROGRESS
    assert heartbeat(other, group, 2, two_id) == E.UNKNOWN_MEMBER_ID


# Syncing, heartbeats, leaving


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"member_id": "ghost"}, E.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "i"}, E.UNKNOWN_MEMBER_ID),
        ({"generation": 0}, E.ILLEGAL_GENERATION),
        ({"generation": 9}, E.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": None}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": None}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"group": ""}, E.INVALID_GROUP_ID),
        ({"group": "nowhere"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_sync_that_is_refused(
    broker: Connection, group: str, said: dict[str, Any], error: E
) -> None:
    joined = enter(broker, group)
    said = {"group": group, "generation": 1, "member_id": joined.member_id, **said}
    named = [said.pop("group"), said.pop("generation"), said.pop("member_id")]
    answer = sync(broker, *named, **said)
    assert (answer.error_code, answer.assignment) == (error, b"")


@pytest.mark.parametrize("version", range(5))
def test_older_syncs(broker: Connection, group: str, version: int) -> None:
    joined = enter(broker, group)
    answer = sync(broker, group, 1, joined.member_id, {joined.member_id: b"x"}, version=version)
    assert (answer.error_code, answer.assignment) == (0, b"x")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"group": ""}, E.INVALID_GROUP_ID),
        ({"group": "nowhere"}, E.UNKNOWN_MEMBER_ID),
        ({"member_id": "ghost"}, E.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "i"}, E.UNKNOWN_MEMBER_ID),
        ({"generation": 0}, E.ILLEGAL_GENERATION),
        ({}, E.NONE),
    ],
)
def test_heartbeats(broker: Connection, group: str, said: dict[str, Any], error: E) -> None:
    joined = form(broker, group)
    said = {"group": group, "generation": 1, "member_id": joined.member_id, **said}
    assert heartbeat(broker, **said) == error


@pytest.mark.parametrize("version", range(6))
def test_leaving(broker: Connection, group: str, version: int) -> None:
    joined = form(broker, group)
    for member_id, error in (("ghost", E.UNKNOWN_MEMBER_ID), (joined.member_id, E.NONE)):
        if version < 3:
            request = LeaveGroupRequest(group_id=group, member_id=member_id)
            assert broker.request(request, version).error_code == error
        else:
            request = LeaveGroupRequest(
                group_id=group, members=[MemberIdentity(member_id=member_id)]
            )
            answer = broker.request(request, version)
            assert (answer.error_code, answer.members[0].error_code) == (0, error)
            assert answer.members[0].member_id == member_id
    state = describe(broker, group)
    assert (state.group_state, state.protocol_type, state.members) == ("Empty", "consumer", [])
    empty = LeaveGroupRequest(group_id="")
    assert broker.request(empty, version).error_code == E.INVALID_GROUP_ID


def test_leaving_what_does_not_exist(broker: Connection, group: str) -> None:
    request = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id="x")])
    answer = broker.request(request, 5)
    assert (answer.error_code, answer.members[0].error_code) == (0, E.UNKNOWN_MEMBER_ID)


# Static members


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_static_leader_comes_back(broker: Connection, group: str, version: int) -> None:
    first = form(broker, group, group_instance_id="me")
    again = join(broker, group, version=version, group_instance_id="me")
    assert (again.error_code, again.generation_id) == (0, 1)
    assert again.member_id != first.member_id
    if version >= 9:
        assert again.leader == again.member_id and again.skip_assignment
        assert [m.member_id for m in again.members] == [again.member_id]
    else:
        assert again.leader == first.member_id and again.members == []
    mine = sync(broker, group, 1, again.member_id, group_instance_id="me")
    assert mine.assignment == b"all"
    fenced = E.FENCED_INSTANCE_ID
    old = {"group_instance_id": "me"}
    assert heartbeat(broker, group, 1, first.member_id, **old) == fenced
    assert sync(broker, group, 1, first.member_id, **old).error_code == fenced
    assert join(broker, group, first.member_id, **old).error_code == fenced
    assert heartbeat(broker, group, 1, first.member_id) == E.UNKNOWN_MEMBER_ID
    who = [MemberIdentity(member_id=first.member_id, group_instance_id="me")]
    who += [MemberIdentity(group_instance_id="unknown"), MemberIdentity(group_instance_id="me")]
    left = broker.request(LeaveGroupRequest(group_id=group, members=who), 5)
    assert [m.error_code for m in left.members] == [fenced, E.UNKNOWN_MEMBER_ID, 0]
    assert describe(broker, group).group_state == "Empty"


def test_a_static_member_with_another_protocol(broker: Connection, group: str) -> None:
    data = subscription("t")
    form(broker, group, group_instance_id="me", protocols={"range": data, "sticky": data})
    again = join(broker, group, group_instance_id="me", protocols={"sticky": data})
    assert (again.error_code, again.generation_id, again.protocol_name) == (0, 2, "sticky")


# Offsets


@pytest.mark.parametrize("version", range(2, 11))
def test_commits_without_a_group(broker: Connection, group: str, topic: Any, version: int) -> None:
    ids = {"topic_id": topic.topic_id} if version >= 10 else {}
    assert commit(broker, group, topic.name, 7, version=version, **ids) == 0
    assert offsets(broker, group) == {(topic.name, 0): (7, -1, "note")}
    missing = commit(broker, group, topic.name, partition=2, version=version, **ids)
    assert missing == E.UNKNOWN_TOPIC_OR_PARTITION
    unknown = commit(broker, group, "nowhere", version=version, topic_id=UNKNOWN_ID)
    expected = E.UNKNOWN_TOPIC_ID if version >= 10 else E.UNKNOWN_TOPIC_OR_PARTITION
    assert unknown == expected
    state = describe(broker, group)
    assert (state.group_state, state.protocol_type, state.members) == ("Empty", "", [])


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"generation_id_or_member_epoch": 1}, E.NONE),
        ({"generation_id_or_member_epoch": 0}, E.ILLEGAL_GENERATION),
        ({"generation_id_or_member_epoch": -1}, E.ILLEGAL_GENERATION),
        ({"generation_id_or_member_epoch": 1, "member_id": "ghost"}, E.UNKNOWN_MEMBER_ID),
        ({"generation_id_or_member_epoch": 1, "group_instance_id": "i"}, E.UNKNOWN_MEMBER_ID),
        ({"generation_id_or_member_epoch": -1, "member_id": ""}, E.UNKNOWN_MEMBER_ID),
        ({"generation_id_or_member_epoch": 1, "metadata": "x" * 4096}, E.NONE),
        (
            {"generation_id_or_member_epoch": 1, "metadata": "x" * 4097},
            E.OFFSET_METADATA_TOO_LARGE,
        ),
        ({"generation_id_or_member_epoch": 1, "metadata": None}, E.NONE),
    ],
)
def test_commits_of_members(
    broker: Connection, group: str, topic: Any, said: dict[str, Any], error: E
) -> None:
    joined = form(broker, group)
    assert commit(broker, group, topic.name, **{"member_id": joined.member_id, **said}) == error


@pytest.mark.parametrize(
    ("version", "error"), [(8, E.ILLEGAL_GENERATION), (9, E.GROUP_ID_NOT_FOUND)]
)
def test_a_commit_to_a_group_that_is_gone(
    broker: Connection, group: str, topic: Any, version: int, error: E
) -> None:
    said = {"generation_id_or_member_epoch": 3, "member_id": "m"}
    assert commit(broker, group, topic.name, version=version, **said) == error


def test_a_commit_before_the_assignment(broker: Connection, group: str, topic: Any) -> None:
    joined = enter(broker, group)
    said = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
    assert commit(broker, group, topic.name, **said) == E.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("version", range(1, 11))
def test_fetching_offsets(broker: Connection, group: str, topic: Any, version: int) -> None:
    commit(broker, group, topic.name, 7)
    if version < 8:
        topics = [OffsetFetchRequestTopic(name=topic.name, partition_indexes=[0, 1, 9])]
        answer = broker.request(OffsetFetchRequest(group_id=group, topics=topics), version)
    else:
        named = {"topic_id": topic.topic_id} if version >= 10 else {"name": topic.name}
        topics = [OffsetFetchRequestTopics(partition_indexes=[0, 1, 9], **named)]
        wanted = OffsetFetchRequestGroup(group_id=group, topics=topics)
        (answer,) = broker.request(OffsetFetchRequest(groups=[wanted]), version).groups
    assert answer.error_code == 0
    assert [
        (p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code)
        for p in answer.topics[0].partitions
    ] == [(0, 7, -1, "note", 0), (1, -1, -1, "", 0), (9, -1, -1, "", 0)]


def test_fetching_offsets_of_an_unknown_topic_id(broker: Connection, group: str) -> None:
    topics = [OffsetFetchRequestTopics(topic_id=UNKNOWN_ID, partition_indexes=[1])]
    wanted = OffsetFetchRequestGroup(group_id=group, topics=topics)
    (answer,) = broker.request(OffsetFetchRequest(groups=[wanted]), 10).groups
    (one,) = answer.topics[0].partitions
    assert (one.error_code, one.committed_offset) == (E.UNKNOWN_TOPIC_ID, -1)


def test_deleting_offsets(broker: Connection, group: str, topic: Any) -> None:
    joined = form(broker, group, protocols={"range": subscription(topic.name)})
    second = make_topic(broker, fresh("topic"))
    for name in (topic.name, second.name):
        said = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
        assert commit(broker, group, name, **said) == 0
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
            )
            for name, indexes in ((topic.name, [0]), (second.name, [0, 1, 5]), ("nowhere", [0]))
        ],
    )
    answer = broker.request(request, 0)
    assert answer.error_code == 0
    assert {
        (t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions
    } == {
        (topic.name, 0): E.GROUP_SUBSCRIBED_TO_TOPIC,
        (second.name, 0): 0,
        (second.name, 1): 0,
        (second.name, 5): E.UNKNOWN_TOPIC_OR_PARTITION,
        ("nowhere", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert list(offsets(broker, group)) == [(topic.name, 0)]
    request.group_id = fresh()
    assert broker.request(request, 0).error_code == E.GROUP_ID_NOT_FOUND


def test_a_group_without_offsets_stays_empty(broker: Connection, group: str, topic: Any) -> None:
    assert commit(broker, group, topic.name) == 0
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name=topic.name, partitions=partitions)]
    for _ in range(2):
        answer = broker.request(OffsetDeleteRequest(group_id=group, topics=topics), 0)
        assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
    assert describe(broker, group).group_state == "Empty"
    (deleted,) = broker.request(DeleteGroupsRequest(groups_names=[group]), 2).results
    assert deleted.error_code == 0


def test_a_group_whose_member_left_before_its_first_generation_stays_empty(
    broker: Connection, group: str
) -> None:
    given = join(broker, group)
    assert given.error_code == E.MEMBER_ID_REQUIRED
    left = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=given.member_id)])
    assert [one.error_code for one in broker.request(left, 5).members] == [0]
    found = describe(broker, group)
    assert (found.error_code, found.group_state, found.protocol_type) == (0, "Empty", "")
    (deleted,) = broker.request(DeleteGroupsRequest(groups_names=[group]), 2).results
    assert deleted.error_code == 0


def test_deleting_offsets_of_another_kind_of_group(
    broker: Connection, group: str, topic: Any
) -> None:
    form(broker, group, protocol_type="connect")
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name=topic.name, partitions=partitions)]
    answer = broker.request(OffsetDeleteRequest(group_id=group, topics=topics), 0)
    assert answer.error_code == E.NON_EMPTY_GROUP


def test_deleting_the_topic_forgets_its_offsets(broker: Connection, group: str) -> None:
    doomed = make_topic(broker, fresh("topic"))
    commit(broker, group, doomed.name)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=doomed.name)], timeout_ms=10_000)
    assert broker.request(request, 6).responses[0].error_code == 0
    eventually(lambda: offsets(broker, group) == {})


# Looking at groups, deleting them


@pytest.mark.parametrize("version", range(7))
def test_describing(broker: Connection, group: str, version: int) -> None:
    joined = form(broker, group)
    state = describe(broker, group, version)
    assert (state.error_code, state.group_state, state.protocol_type, state.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    (member,) = state.members
    assert (member.member_id, member.client_id) == (joined.member_id, "story")
    assert member.client_host == "/127.0.0.1"
    assert (member.member_metadata, member.member_assignment) == (subscription("t"), b"all")
    gone = describe(broker, fresh(), version)
    error = E.GROUP_ID_NOT_FOUND if version >= 6 else E.NONE
    assert (gone.error_code, gone.group_state, gone.members) == (error, "Dead", [])


def test_describing_a_group_that_was_only_asked_about(broker: Connection, group: str) -> None:
    pending = join(broker, group)
    assert pending.error_code == E.MEMBER_ID_REQUIRED
    assert describe(broker, group, 6).group_state == "Empty"


@pytest.mark.parametrize(
    ("version", "said", "found"),
    [
        (0, {}, True),
        (3, {}, True),
        (4, {"states_filter": ["stable"]}, True),
        (4, {"states_filter": ["Empty"]}, False),
        (4, {"states_filter": ["nonsense"]}, False),
        (5, {"types_filter": ["classic"]}, True),
        (5, {"types_filter": ["consumer"]}, False),
        (5, {"types_filter": ["nonsense"]}, False),
        (5, {"types_filter": ["classic"], "states_filter": ["Stable", "Empty"]}, True),
    ],
)
def test_listing(
    broker: Connection, group: str, version: int, said: dict[str, Any], found: bool
) -> None:
    form(broker, group)
    answer = broker.request(ListGroupsRequest(**said), version)
    assert answer.error_code == 0
    listed = [one for one in answer.groups if one.group_id == group]
    assert bool(listed) == found
    if found:
        (one,) = listed
        assert (one.protocol_type, one.group_state, one.group_type) == (
            "consumer",
            "Stable" if version >= 4 else "",
            "classic" if version >= 5 else "",
        )


@pytest.mark.parametrize("version", range(3))
def test_deleting_groups(broker: Connection, group: str, topic: Any, version: int) -> None:
    form(broker, group)
    simple, gone = fresh(), fresh()
    assert commit(broker, simple, topic.name) == 0
    request = DeleteGroupsRequest(groups_names=[group, simple, gone, simple])
    answer = broker.request(request, version)
    assert {r.group_id: r.error_code for r in answer.results} == {
        group: E.NON_EMPTY_GROUP,
        simple: 0,
        gone: E.GROUP_ID_NOT_FOUND,
    }
    assert offsets(broker, simple) == {}
    assert describe(broker, simple).group_state == "Dead"
