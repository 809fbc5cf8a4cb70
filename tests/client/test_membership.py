"""Membership of a group without I/O: error by error, and in random worlds with our coordinator."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from fencepost.client.assignors import Subscriber, assign_range, assign_roundrobin
from fencepost.client.errors import BrokerError, ProtocolError
from fencepost.client.membership import Membership, MembershipConfig, State, decode_assignment
from fencepost.client.metadata import TopicPartition
from fencepost.machines.group.caller import Caller
from fencepost.machines.group.shard import Decision
from fencepost.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from fencepost.wire.api.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from fencepost.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Request
from fencepost.wire.records.consumer import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitionAssigned,
    decode_prefixed,
    encode_prefixed,
)

from ..machines.group_world import GroupWorld, subscription

CONFIG = MembershipConfig("g", ("t",), session_timeout_ms=10_000, heartbeat_interval_ms=3_000)


def assigned(*partitions: int) -> bytes:
    topics = [TopicPartitionAssigned(topic="t", partitions=list(partitions))]
    return encode_prefixed(ConsumerProtocolAssignment(assigned_partitions=topics), 1)


def joined(member_id: str = "me", leader: str = "me", **said: Any) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=said.pop("generation_id", 1),
        protocol_name=said.pop("protocol_name", "range"),
        leader=leader,
        member_id=member_id,
        **said,
    )


def stable(leads: bool = False) -> Membership:
    """A member that has partition 0 of t."""
    membership = Membership(CONFIG)
    members = [JoinGroupResponseMember(member_id="me", metadata=subscription("t"))]
    answer = joined(leader="me" if leads else "other", members=members if leads else [])
    membership.on_response(answer, 0)
    if leads:
        membership.assign({"t": 1})
    membership.on_response(SyncGroupResponse(assignment=assigned(0)), 0)
    return membership


def test_a_new_member_comes_back_with_the_id_it_got():
    membership = Membership(CONFIG)
    first = membership.next_request(0)
    assert isinstance(first, JoinGroupRequest)
    assert (first.member_id, first.session_timeout_ms) == ("", 10_000)
    assert [protocol.name for protocol in first.protocols] == ["range", "roundrobin"]
    refused = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me")
    membership.on_response(refused, 0)
    second = membership.next_request(0)  # at once
    assert isinstance(second, JoinGroupRequest)
    assert second.member_id == "me"
    assert membership.has_to_leave  # the coordinator keeps the id for it


def test_the_leader_assigns_to_all_members():
    membership = Membership(CONFIG)
    members = [
        JoinGroupResponseMember(member_id="me", metadata=subscription("t", "u")),
        JoinGroupResponseMember(member_id="other", metadata=subscription("t")),
        JoinGroupResponseMember(member_id="unreadable", metadata=b"\0"),
    ]
    membership.on_response(joined(members=members), 0)
    assert (membership.state, membership.next_request(0)) == (State.ASSIGNING, None)
    assert membership.subscribed_topics == {"t", "u"}
    membership.assign({"t": 3, "u": 1})
    request = membership.next_request(0)
    assert isinstance(request, SyncGroupRequest)
    assert {one.member_id: decode_assignment(one.assignment) for one in request.assignments} == {
        "me": (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)),
        "other": (TopicPartition("t", 2),),
        "unreadable": (),
    }


def test_a_returning_static_leader_leaves_the_assignment_as_it_is():
    membership = Membership(CONFIG)
    members = [JoinGroupResponseMember(member_id="me", metadata=subscription("t"))]
    membership.on_response(joined(members=members, skip_assignment=True), 0)
    request = membership.next_request(0)
    assert isinstance(request, SyncGroupRequest)
    assert request.assignments == []


def test_heartbeats_leave_when_they_are_due():
    membership = stable()
    assert membership.assignment == (TopicPartition("t", 0),)
    assert membership.next_request(2_999) is None
    assert membership.wait_ms(2_000) == 1_000
    assert isinstance(membership.next_request(3_000), HeartbeatRequest)
    membership.on_response(HeartbeatResponse(), 3_100)
    assert membership.wait_ms(3_100) == 3_000
    assert membership.state is State.STABLE


@pytest.mark.parametrize(
    ("code", "may_commit", "member_id"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, True, "me"),
        (ErrorCode.ILLEGAL_GENERATION, False, "me"),
        (ErrorCode.UNKNOWN_MEMBER_ID, False, ""),
    ],
)
@pytest.mark.parametrize("how", ["heartbeat", "commit"])
def test_a_rebalance_is_joined_and_a_lost_generation_commits_nothing(
    code: ErrorCode, may_commit: bool, member_id: str, how: str
):
    membership = stable()
    if how == "heartbeat":
        membership.on_response(HeartbeatResponse(error_code=code), 5_000)
    else:
        membership.on_commit_error(code, 5_000)
    assert (membership.state, membership.may_commit) == (State.UNJOINED, may_commit)
    request = membership.next_request(5_000)
    assert isinstance(request, JoinGroupRequest)
    assert request.member_id == member_id
    assert code.name in (request.reason or "")


def test_a_commit_refused_on_the_way_to_joining_changes_nothing():
    """The JoinGroup that is due tells what is to be known, and leaves at once."""
    membership = stable()
    membership.on_response(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 5_000)
    membership.on_commit_error(ErrorCode.UNKNOWN_MEMBER_ID, 5_000)
    request = membership.next_request(5_000)
    assert isinstance(request, JoinGroupRequest)
    assert request.member_id == "me"
    assert "Heartbeat" in (request.reason or "")


@pytest.mark.parametrize("answer", [JoinGroupResponse, SyncGroupResponse])
def test_joining_again_and_again_pauses(answer: Any):
    membership = Membership(CONFIG)
    if answer is SyncGroupResponse:
        membership.on_response(joined(leader="other"), 0)
    membership.on_response(answer(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 1_000)
    assert membership.next_request(1_000) is None
    assert membership.wait_ms(1_000) == CONFIG.retry_backoff_ms
    assert isinstance(membership.next_request(1_100), JoinGroupRequest)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ],
)
def test_what_joining_again_cannot_help_is_raised(code: ErrorCode):
    with pytest.raises(BrokerError, match=code.name):
        Membership(CONFIG).on_response(JoinGroupResponse(error_code=code), 0)
    with pytest.raises(BrokerError, match=code.name):
        stable().on_response(HeartbeatResponse(error_code=code), 0)


def test_malformed_responses_are_protocol_errors():
    with pytest.raises(ProtocolError, match="sticky"):
        Membership(CONFIG).on_response(joined(protocol_name="sticky"), 0)
    with pytest.raises(ProtocolError, match="no answer to"):
        Membership(CONFIG).on_response(object(), 0)
    membership = Membership(CONFIG)
    membership.on_response(joined(leader="other"), 0)
    with pytest.raises(ProtocolError, match="no assignment"):
        membership.on_response(SyncGroupResponse(assignment=b"\0\0\0\0\0\7"), 0)


def test_the_leader_joins_again_for_new_partitions_and_others_do_not():
    for leads in (True, False):
        membership = stable(leads)
        membership.on_partition_counts({"t": 1}, 10)
        assert membership.state is State.STABLE
        membership.on_partition_counts({"t": 2}, 10)
        assert (membership.state is State.UNJOINED) == leads


def test_who_led_a_generation_does_not_act_as_leader_of_the_next():
    membership = stable(leads=True)
    membership.on_response(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 5_000)
    membership.on_response(joined(leader="other", generation_id=2), 5_000)
    request = membership.next_request(5_000)
    assert isinstance(request, SyncGroupRequest)
    assert request.assignments == []
    membership.on_response(SyncGroupResponse(assignment=assigned(0)), 5_000)
    membership.on_partition_counts({"t": 2}, 5_000)
    assert membership.state is State.STABLE


def test_every_request_of_a_static_member_names_its_instance():
    membership = Membership(MembershipConfig("g", ("t",), group_instance_id="i"))
    requests = [membership.next_request(0)]
    membership.on_response(joined(leader="other"), 0)
    requests.append(membership.next_request(0))
    membership.on_response(SyncGroupResponse(assignment=assigned(0)), 0)
    requests.append(membership.next_request(3_000))
    kinds = [JoinGroupRequest, SyncGroupRequest, HeartbeatRequest]
    assert [type(request) for request in requests] == kinds
    assert [request.group_instance_id for request in requests if request] == ["i"] * 3


def test_a_static_member_never_leaves():
    static = Membership(MembershipConfig("g", ("t",), group_instance_id="i"))
    static.on_response(joined(leader="other"), 0)
    assert not static.has_to_leave
    membership = stable()
    assert membership.leave_request(2).member_id == "me"
    for version in (3, 5):
        assert [one.member_id for one in membership.leave_request(version).members] == ["me"]
    membership.forget()
    assert not membership.has_to_leave
    assert isinstance(membership.next_request(0), JoinGroupRequest), "nothing is waited for"
    assert not membership.may_commit


# -- assignors -------------------------------------------------------------------------------------

TOPICS = ("a", "b", "c")


@given(
    st.dictionaries(
        st.text("xyz", min_size=1, max_size=3), st.sets(st.sampled_from(TOPICS)), min_size=1
    ),
    st.tuples(*[st.integers(0, 7)] * len(TOPICS)),
)
def test_partitions_are_assigned_as_other_clients_do(
    topics: dict[str, set[str]], counts: tuple[int, ...]
):
    members = [Subscriber(name, frozenset(chosen)) for name, chosen in topics.items()]
    numbers = dict(zip(TOPICS, counts, strict=True))
    subscribed = {topic: numbers[topic] for chosen in topics.values() for topic in chosen}
    cluster = SimpleNamespace(partitions_for_topic=lambda topic: set(range(numbers[topic])) or None)
    told = [
        SimpleNamespace(
            member_id=name, group_instance_id=None, metadata=SimpleNamespace(topics=sorted(chosen))
        )
        for name, chosen in topics.items()
    ]
    for ours, theirs in (
        (assign_range, RangePartitionAssignor),
        (assign_roundrobin, RoundRobinPartitionAssignor),
    ):
        if theirs is RoundRobinPartitionAssignor and len({*map(frozenset, topics.values())}) > 1:
            continue  # kafka-python 3.0 fails there with a KeyError
        expected = {
            member_id: {
                TopicPartition(topic, number)
                for topic, chosen in assignment.assigned_partitions
                for number in chosen
            }
            for member_id, assignment in theirs.assign(cluster, told).items()
        }
        found = ours(members, subscribed)
        assert {member: set(chosen) for member, chosen in found.items()} == expected


@pytest.mark.parametrize("assign", [assign_range, assign_roundrobin])
def test_the_order_in_which_topics_are_counted_changes_no_assignment(assign: Any):
    members = [Subscriber("1", frozenset("ab")), Subscriber("2", frozenset("ab"))]
    assert assign(members, {"b": 1, "a": 2}) == assign(members, {"a": 2, "b": 1})
    assert assign(members, {"b": 2, "a": 1}) == assign(members, {"a": 1, "b": 2})


def test_roundrobin_passes_members_over_that_do_not_read_a_topic():
    """The example in the documentation of Kafka's RoundRobinAssignor."""
    members = [
        Subscriber("C0", frozenset({"t0"})),
        Subscriber("C1", frozenset({"t0", "t1"})),
        Subscriber("C2", frozenset({"t0", "t1", "t2"})),
    ]
    found = assign_roundrobin(members, {"t0": 1, "t1": 2, "t2": 3})
    assert {member: [str(one) for one in chosen] for member, chosen in found.items()} == {
        "C0": ["t0-0"],
        "C1": ["t1-0"],
        "C2": ["t1-1", "t2-0", "t2-1", "t2-2"],
    }


def test_static_members_keep_their_order_under_new_member_ids():
    one = [Subscriber("z-1", frozenset("t"), "a"), Subscriber("a-1", frozenset("t"), "b")]
    two = [Subscriber("a-9", frozenset("t"), "a"), Subscriber("z-9", frozenset("t"), "b")]
    for assign in (assign_range, assign_roundrobin):
        assert list(assign(one, {"t": 2}).values()) == list(assign(two, {"t": 2}).values())
    mixed = [Subscriber("a", frozenset("t")), Subscriber("z", frozenset("t"), "z")]
    assert assign_range(mixed, {"t": 1})["z"] == [TopicPartition("t", 0)]


# -- random worlds ---------------------------------------------------------------------------------

PARTITIONS = 5


class Node:
    """A member with its driver: at most one request is under way."""

    def __init__(self) -> None:
        self.membership = Membership(CONFIG)
        self.token: int | None = None


class World:
    """Members of one group, a coordinator, and a network that loses requests and answers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.group = GroupWorld()
        self.nodes = [Node() for _ in range(self.random.randint(1, 4))]

    def step(self, *, faults: bool) -> None:
        """Something happens, by chance."""
        node = self.random.choice(self.nodes)
        if faults and self.random.random() < 0.15:
            self._fault(node)
        elif node.token is not None and node.token in self.group.replies:
            node.membership.on_response(self.group.replies[node.token], self.group.now)
            node.token = None
        elif node.token is None and node.membership.state is State.ASSIGNING:
            node.membership.assign({"t": PARTITIONS})
        elif node.token is None and (request := node.membership.next_request(self.group.now)):
            node.token = self.group.ask(self._decide(request))
        else:
            self.group.advance(self.random.choice([10, 500, 3_000]))
        self.check()

    def _decide(self, request: Request[Any]) -> Callable[[int], Decision]:
        coordinator, wall = self.group.coordinator, self.group.wall
        if isinstance(request, JoinGroupRequest):
            return lambda token: coordinator.decide_join_group(
                request, Caller(token, 9, "c", "/127.0.0.1", f"u{token}"), wall
            )
        if isinstance(request, SyncGroupRequest):
            return lambda token: coordinator.decide_sync_group(request, Caller(token, 5), wall)
        assert isinstance(request, HeartbeatRequest)
        return lambda token: coordinator.decide_heartbeat(request, Caller(token, 4))

    def _fault(self, node: Node) -> None:
        what = self.random.choice(["lost", "lost", "restart", "pause", "new", "crash"])
        if what == "lost":
            node.token = None  # the request or its answer; the driver asks again
        elif what == "restart":
            self.group.restart()
            for one in self.nodes:
                one.token = None
        elif what == "pause":
            self.group.advance(12_000)  # beyond the session timeout
        elif what == "new" and len(self.nodes) < 6:
            self.nodes.append(Node())
        elif what == "crash" and len(self.nodes) > 1:
            self.nodes.remove(node)

    def check(self) -> None:
        """Members of the coordinator's generation share no partition."""
        group = self.group.coordinator.groups.get("g")
        taken: list[TopicPartition] = []
        for node in self.nodes:
            one = node.membership
            if group and one.state is State.STABLE and one.generation_id == group.generation:
                taken += one.assignment
        assert len(taken) == len(set(taken))

    @property
    def is_settled(self) -> bool:
        members = [node.membership for node in self.nodes]
        if any(one.state is not State.STABLE for one in members):
            return False
        taken = sorted(partition for one in members for partition in one.assignment)
        return taken == [TopicPartition("t", number) for number in range(PARTITIONS)]


@pytest.mark.parametrize("seed", range(60))
def test_members_share_all_partitions_whatever_happened_before(seed: int):
    world = World(seed)
    for _ in range(300):
        world.step(faults=True)
    for _ in range(5_000):
        if world.is_settled:
            break
        world.step(faults=False)
    assert world.is_settled, [node.membership for node in world.nodes]
    assert len({node.membership.generation_id for node in world.nodes}) == 1


def test_a_subscription_is_readable_for_every_client():
    request = Membership(MembershipConfig("g", ("b", "a"))).next_request(0)
    assert isinstance(request, JoinGroupRequest)
    for protocol in request.protocols:
        decoded = decode_prefixed(ConsumerProtocolSubscription, protocol.metadata)
        assert decoded.topics == ["a", "b"]
