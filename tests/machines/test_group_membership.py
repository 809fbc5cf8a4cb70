"""Classic groups: joining, assigning, watching, leaving; every error of the four requests."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.group import Caller, GroupState
from fencepost.machines.group.config import MAX_PENDING_MEMBERS, NEW_MEMBER_JOIN_TIMEOUT_MS
from fencepost.wire.api.join_group import JoinGroupRequest
from fencepost.wire.api.leave_group import LeaveGroupRequest
from fencepost.wire.errors import ErrorCode

from .group_world import GroupWorld, subscription

PREPARING = GroupState.PREPARING_REBALANCE
COMPLETING = GroupState.COMPLETING_REBALANCE


# Joining


def test_a_new_member_is_given_an_id_and_then_joins() -> None:
    world = GroupWorld()
    member_id = world.new_id(client="app")
    assert member_id == "app-u1"
    token = world.join(member_id)
    world.advance(0)
    response = world.replies[token]
    assert (response.error_code, response.generation_id, response.leader) == (0, 1, member_id)
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
    assert [m.member_id for m in response.members] == [member_id]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_older_clients_join_without_being_given_an_id_first(version: int) -> None:
    world = GroupWorld()
    token = world.join(version=version)
    world.advance(0)
    assert world.replies[token].member_id == "c-u1"


def test_the_first_version_has_no_rebalance_timeout() -> None:
    world = GroupWorld()
    world.join(version=0, rebalance_ms=-1, session_ms=7_000)
    assert world.group.members["c-u1"].rebalance_timeout_ms == 7_000


def test_only_the_leader_hears_who_is_in() -> None:
    world = GroupWorld()
    ids = [world.new_id(), world.new_id()]
    tokens = [world.join(ids[0]), world.join(ids[1], protocols={"range": subscription("x")})]
    world.advance(0)
    leader, other = (world.replies[token] for token in tokens)
    assert [(m.member_id, m.metadata) for m in leader.members] == [
        (ids[0], subscription("t")),
        (ids[1], subscription("x")),
    ]
    assert other.members == [] and other.leader == ids[0] and other.generation_id == 1


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": {}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "ghost"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "ghost", "instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_that_is_refused_leaves_nothing_behind(
    said: dict[str, Any], error: ErrorCode
) -> None:
    world = GroupWorld()
    token = world.join(**said)
    assert world.error(token) is error
    assert world.replies[token].generation_id == -1
    assert not world.coordinator.groups and not world.log


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": {"sticky": b""}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "ghost"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "c-u1", "instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_to_a_group_with_members_that_is_refused(
    said: dict[str, Any], error: ErrorCode
) -> None:
    world = GroupWorld()
    world.form(1)
    assert world.error(world.join(**said)) is error
    assert world.group.state is GroupState.STABLE


def test_the_protocol_is_one_all_support_that_most_prefer() -> None:
    world = GroupWorld()
    data = subscription("t")
    ids = [world.new_id() for _ in range(3)]
    tokens = [
        world.join(ids[0], protocols={"a": data, "b": data, "c": data}),
        world.join(ids[1], protocols={"c": data, "b": data}),
        world.join(ids[2], protocols={"b": data, "c": data, "a": data}),
    ]
    world.advance(0)
    assert {world.replies[token].protocol_name for token in tokens} == {"b"}


def test_the_first_rebalance_waits_for_more_members_and_again_while_they_come() -> None:
    world = GroupWorld(initial_rebalance_delay_ms=3_000)
    first = world.join(world.new_id(), rebalance_ms=7_000)
    world.advance(2_900)
    second = world.join(world.new_id(), rebalance_ms=7_000)
    world.advance(2_900)
    assert first not in world.replies
    world.advance(200)
    assert world.replies[first].generation_id == world.replies[second].generation_id == 1


def test_the_first_rebalance_waits_no_longer_than_the_rebalance_timeout() -> None:
    world = GroupWorld(initial_rebalance_delay_ms=3_000)
    tokens = []
    for _ in range(10):
        tokens.append(world.join(version=3, rebalance_ms=7_000))
        world.advance(1_000)
    assert world.replies[tokens[0]].generation_id == 1


def test_a_known_member_id_that_was_never_used_holds_the_rebalance_up_until_it_expires() -> None:
    world = GroupWorld()
    ids = world.form(1)
    world.new_id(session_ms=8_000)
    token = world.join(ids[0], session_ms=30_000)
    world.advance(7_999)
    assert token not in world.replies
    world.advance(1)
    assert world.replies[token].generation_id == 2


def test_ids_given_out_are_bounded() -> None:
    world = GroupWorld()
    world.form(1)
    world.group.pending_members = dict.fromkeys(map(str, range(MAX_PENDING_MEMBERS)))
    assert world.error(world.join()) is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize("said", [{"client": "é" * 16_383}, {"instance": "i" * 32_767}])
def test_an_id_that_would_be_too_long_to_write_is_refused(said: dict[str, str]) -> None:
    world = GroupWorld()
    assert world.error(world.join(**said)) is ErrorCode.INVALID_REQUEST
    assert not world.coordinator.groups


def test_a_pending_id_is_not_for_static_members() -> None:
    world = GroupWorld()
    member_id = world.new_id()
    assert world.error(world.join(member_id, instance="i")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_of_limited_size() -> None:
    world = GroupWorld(max_size=2)
    ids = world.form(2)
    assert world.error(world.join()) is ErrorCode.GROUP_MAX_SIZE_REACHED
    first, second = world.join(ids[0]), world.new_id()
    world.join(ids[1])
    # While members join, the first to come are in.
    turned_away = world.join(second)
    assert world.error(turned_away) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.replies[turned_away].member_id == ""
    # It was the last the others waited for.
    assert world.replies[first].generation_id == 2
    assert list(world.group.members) == ids


def test_the_last_to_come_back_is_turned_away_if_the_group_became_too_large() -> None:
    world = GroupWorld()
    ids = world.form(3)
    world.config = type(world.config)(max_size=2, initial_rebalance_delay_ms=0)
    world.restart()
    assert world.group.state is PREPARING
    tokens = [world.join(member_id) for member_id in ids]
    assert world.error(tokens[2]) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert list(world.group.members) == ids[:2]
    assert [world.replies[token].generation_id for token in tokens[:2]] == [2, 2]


# Rejoining


def test_a_rebalance_ends_when_all_have_joined_again() -> None:
    world = GroupWorld()
    ids = world.form(3)
    first = world.join(ids[0])
    assert world.group.state is PREPARING
    assert [world.heartbeat(i, 1) for i in ids[1:]] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    second = world.join(ids[1])
    assert first not in world.replies
    third = world.join(ids[2])
    assert {world.replies[t].generation_id for t in (first, second, third)} == {2}


def test_who_does_not_join_in_time_is_out() -> None:
    world = GroupWorld()
    ids = world.form(3, session_ms=1_000_000)
    token = world.join(ids[0], session_ms=1_000_000)
    world.join(ids[1], session_ms=1_000_000)
    world.advance(60_000)
    assert world.replies[token].generation_id == 2
    assert list(world.group.members) == ids[:2]
    assert world.heartbeat(ids[2], 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_another_leads_if_the_leader_does_not_join() -> None:
    world = GroupWorld()
    ids = world.form(2, session_ms=1_000_000)
    token = world.join(ids[1], protocols={"range": subscription("x")}, session_ms=1_000_000)
    world.advance(60_000)
    assert world.replies[token].leader == ids[1]
    assert [m.member_id for m in world.replies[token].members] == [ids[1]]


def test_the_leader_may_ask_for_a_rebalance_and_a_follower_that_changed_nothing_does_not() -> None:
    world = GroupWorld()
    ids = world.form(2)
    token = world.join(ids[1])
    response = world.replies[token]
    assert (response.generation_id, response.members) == (1, [])
    assert world.group.state is GroupState.STABLE
    world.join(ids[0])
    assert world.group.state is PREPARING


def test_a_follower_that_changed_its_subscription_does() -> None:
    world = GroupWorld()
    ids = world.form(2)
    world.join(ids[1], protocols={"range": subscription("other")})
    assert world.group.state is PREPARING


@pytest.mark.parametrize("index", [0, 1])
def test_a_join_repeated_before_the_assignment_is_answered_again(index: int) -> None:
    world = GroupWorld()
    ids = [world.new_id(), world.new_id()]
    for member_id in ids:
        world.join(member_id)
    world.advance(0)
    response = world.replies[world.join(ids[index])]
    assert (response.generation_id, len(response.members)) == (1, 2 if index == 0 else 0)
    assert world.group.state is COMPLETING


def test_a_changed_member_before_the_assignment_rebalances_and_who_waits_hears_it() -> None:
    world = GroupWorld()
    ids = [world.new_id(), world.new_id()]
    for member_id in ids:
        world.join(member_id)
    world.advance(0)
    waiting = world.sync(ids[1], 1)
    world.join(ids[0], protocols={"range": subscription("x")})
    assert world.error(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.group.state is PREPARING


def test_a_repeated_join_takes_the_place_of_the_first() -> None:
    world = GroupWorld()
    ids = world.form(2)
    first = world.join(ids[0])
    again = world.join(ids[0])
    assert world.error(first) is ErrorCode.REBALANCE_IN_PROGRESS
    world.join(ids[1])
    assert world.replies[again].generation_id == 2


def test_a_new_member_that_vanished_in_join_is_removed_in_the_end() -> None:
    world = GroupWorld()
    ids = world.form(1, session_ms=1_000_000, rebalance_ms=1_000_000)
    token = world.join(world.new_id(), session_ms=10_000)
    world.advance(NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert world.error(token) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.replies[token].member_id == ""
    assert list(world.group.members) == ids


def test_a_reason_is_noted_and_made_harmless() -> None:
    world = GroupWorld()
    world.join(world.new_id(), reason="a\nb" + "x" * 1_000)
    (note,) = world.notes
    assert "\\n" in note and "\n" not in note and len(note) < 500


# Syncing


def completing() -> tuple[GroupWorld, list[str]]:
    world = GroupWorld()
    ids = [world.new_id(), world.new_id()]
    for member_id in ids:
        world.join(member_id)
    world.advance(0)
    return world, ids


def test_everybody_gets_what_the_leader_gave() -> None:
    world, ids = completing()
    follower = world.sync(ids[1], 1)
    assert follower not in world.replies
    leader = world.sync(ids[0], 1, {ids[0]: b"one", ids[1]: b"two", "stranger": b"three"})
    assert [world.replies[t].assignment for t in (leader, follower)] == [b"one", b"two"]
    assert world.replies[follower].protocol_name == "range"
    assert world.group.state is GroupState.STABLE
    assert len(world.log) == 1


def test_whom_the_leader_forgot_gets_nothing() -> None:
    world, ids = completing()
    world.sync(ids[0], 1, {ids[0]: b"all"})
    assert world.replies[world.sync(ids[1], 1)].assignment == b""


def test_a_late_member_gets_its_assignment_from_the_stable_group() -> None:
    world = GroupWorld()
    ids = world.form(2)
    assert world.replies[world.sync(ids[1], 1)].assignment == ids[1].encode()


def test_an_assignment_leaves_only_when_it_is_stored() -> None:
    world, ids = completing()
    world.committing = False
    follower, leader = world.sync(ids[1], 1), world.sync(ids[0], 1, {ids[1]: b"x"})
    late = world.sync(ids[1], 1)
    assert not {follower, leader, late} & set(world.replies)
    world.commit()
    assert world.replies[late].assignment == b"x"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group": "nowhere"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "ghost"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_sync_that_is_refused(said: dict[str, Any], error: ErrorCode) -> None:
    world, ids = completing()
    said = {"member_id": ids[0], "generation": 1, **said}
    assert world.error(world.sync(**said)) is error
    assert not world.log


def test_older_syncs_do_not_name_the_protocol() -> None:
    world, ids = completing()
    token = world.sync(ids[0], 1, {}, version=4, protocol=None, protocol_type=None)
    assert world.error(token) is ErrorCode.NONE


def test_a_sync_during_the_next_rebalance() -> None:
    world = GroupWorld()
    ids = world.form(2)
    world.join(ids[0])
    assert world.error(world.sync(ids[1], 1)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_repeated_sync_takes_the_place_of_the_first() -> None:
    world, ids = completing()
    first, again = world.sync(ids[1], 1), world.sync(ids[1], 1)
    assert world.error(first) is ErrorCode.REBALANCE_IN_PROGRESS
    world.sync(ids[0], 1, {ids[1]: b"x"})
    assert world.replies[again].assignment == b"x"


def test_members_that_never_sync_are_removed() -> None:
    world, ids = completing()
    world.sync(ids[0], 1, {})
    for _ in range(12):
        world.advance(5_000)
        for member_id in ids:
            world.heartbeat(member_id, world.group.generation)
    assert ids[1] not in world.group.members
    assert world.group.state is PREPARING


def test_a_leader_that_never_syncs_is_removed_and_another_leads() -> None:
    world, ids = completing()
    waiting = world.sync(ids[1], 1)
    for _ in range(13):
        world.advance(5_000)
        if ids[0] in world.group.members:
            world.heartbeat(ids[0], 1)
    assert world.error(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert ids[0] not in world.group.members


# Heartbeats and sessions


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group": "nowhere"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "ghost"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({}, ErrorCode.NONE),
    ],
)
def test_heartbeats(said: dict[str, Any], error: ErrorCode) -> None:
    world = GroupWorld()
    ids = world.form(1)
    assert world.heartbeat(**{"member_id": ids[0], "generation": 1, **said}) is error


def test_a_silent_member_is_removed_after_its_session() -> None:
    world = GroupWorld()
    ids = world.form(2, session_ms=10_000)
    world.advance(6_000)
    assert world.heartbeat(ids[0], 1) is ErrorCode.NONE
    world.advance(4_000)
    assert list(world.group.members) == ids[:1]
    assert world.group.state is PREPARING
    token = world.join(ids[0])
    assert world.replies[token].generation_id == 2
    assert world.heartbeat(ids[1], 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_member_gone_leaves_an_empty_group_behind() -> None:
    world = GroupWorld()
    world.form(1)
    world.advance(10_000)
    assert world.group.state is GroupState.EMPTY
    assert (world.group.generation, world.group.protocol) == (2, None)
    assert world.group.protocol_type == "consumer"


def test_heartbeats_cost_no_timers() -> None:
    world = GroupWorld()
    (member_id,) = world.form(1)
    timers = dict(world.timers)
    world.now += 1_000
    world.heartbeat(member_id, 1)
    assert world.timers == timers
    world.advance(9_500)
    assert list(world.group.members) == [member_id], "the timer looked again instead"


def test_who_waits_in_a_rebalance_need_not_heartbeat() -> None:
    world = GroupWorld()
    ids = world.form(2, session_ms=10_000, rebalance_ms=100_000)
    world.join(ids[0], rebalance_ms=100_000)
    for _ in range(9):
        world.advance(9_000)
        world.heartbeat(ids[1], 1)
    assert list(world.group.members) == ids


# Leaving


def test_leaving_rebalances_the_rest() -> None:
    world = GroupWorld()
    ids = world.form(3)
    assert world.leave(ids[0]) == [ErrorCode.NONE]
    assert world.group.state is PREPARING and list(world.group.members) == ids[1:]
    assert world.heartbeat(ids[0], 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_several_leave_at_once_and_each_hears_its_own() -> None:
    world = GroupWorld()
    ids = world.form(3)
    assert world.leave(ids[0], "ghost", (ids[1], "i"), ids[1]) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert list(world.group.members) == ids[2:]


def test_all_leave() -> None:
    world = GroupWorld()
    ids = world.form(2)
    world.leave(*ids)
    assert world.group.state is GroupState.EMPTY
    assert world.group.stored.members == []


def test_leaving_a_group_that_does_not_exist() -> None:
    world = GroupWorld()
    assert world.leave("ghost") == [ErrorCode.UNKNOWN_MEMBER_ID]
    decision = world.coordinator.decide_leave_group(LeaveGroupRequest(), Caller(9, 5), 0)
    assert decision.replies[0][1].error_code == ErrorCode.INVALID_GROUP_ID


def test_a_pending_member_leaves() -> None:
    world = GroupWorld()
    ids = world.form(1)
    pending = world.new_id()
    token = world.join(ids[0])
    assert token not in world.replies
    assert world.leave(pending) == [ErrorCode.NONE]
    assert world.replies[token].generation_id == 2


def test_the_only_pending_member_leaves_nothing_behind() -> None:
    world = GroupWorld()
    world.leave(world.new_id())
    assert not world.coordinator.groups


def test_a_member_that_waits_in_join_is_told_when_it_is_taken_out() -> None:
    world = GroupWorld()
    ids = world.form(2)
    token = world.join(ids[0])
    world.leave(ids[0])
    assert world.error(token) is ErrorCode.UNKNOWN_MEMBER_ID


def test_joining_a_group_all_of_whose_members_left_before_it_began() -> None:
    world = GroupWorld(initial_rebalance_delay_ms=3_000)
    first = world.new_id()
    world.join(first)
    world.leave(first)
    token = world.join(version=3)
    world.advance(10_000)
    assert world.error(token) is ErrorCode.NONE


# Static members


def static_group() -> tuple[GroupWorld, str, str]:
    """A stable group of the static members "a", which leads, and "b"; their ids."""
    world = GroupWorld()
    tokens = [world.join(instance="a"), world.join(instance="b")]
    world.advance(0)
    a, b = (world.replies[token].member_id for token in tokens)
    world.sync(b, 1, instance="b")
    world.sync(a, 1, {a: b"A", b: b"B"}, instance="a")
    return world, a, b


def test_static_members_join_at_once_and_have_ids_of_their_own() -> None:
    _, a, b = static_group()
    assert (a, b) == ("a-u1", "b-u2")


def test_a_static_member_comes_back_without_a_rebalance_and_keeps_its_assignment() -> None:
    world, a, b = static_group()
    response = world.replies[world.join(instance="b")]
    assert (response.error_code, response.generation_id, response.leader) == (0, 1, a)
    assert not response.skip_assignment and response.members == []
    new_b = response.member_id
    assert new_b != b
    assert world.group.state is GroupState.STABLE
    assert world.replies[world.sync(new_b, 1, instance="b")].assignment == b"B"
    assert world.group.stored.members[-1].member_id == new_b


def test_a_static_leader_that_comes_back_must_not_assign() -> None:
    world, _, b = static_group()
    response = world.replies[world.join(instance="a", version=9)]
    assert response.skip_assignment and response.leader == response.member_id
    assert {m.member_id for m in response.members} == {b, response.member_id}


@pytest.mark.parametrize("version", [5, 8])
def test_an_older_static_leader_that_comes_back_is_not_told_that_it_leads(version: int) -> None:
    world, a, _ = static_group()
    response = world.replies[world.join(instance="a", version=version)]
    assert response.leader == a != response.member_id
    assert response.members == []


def test_the_first_of_two_instances_is_fenced() -> None:
    world, _, b = static_group()
    new_b = world.replies[world.join(instance="b")].member_id
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat(b, 1, instance="b") is fenced
    assert world.error(world.sync(b, 1, instance="b")) is fenced
    assert world.error(world.join(b, instance="b")) is fenced
    assert world.leave((b, "b")) == [fenced]
    assert world.commit_error(member_id=b, generation=1, instance="b") is fenced
    assert world.heartbeat(new_b, 1, instance="b") is ErrorCode.NONE
    assert world.heartbeat(b, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_requests_of_a_fenced_member_that_wait_are_answered() -> None:
    world, _, b = static_group()
    other = {"range": subscription("x")}
    waiting = world.join(b, instance="b", protocols=other)
    assert world.group.state is PREPARING
    world.join(instance="b", protocols=other)
    assert world.error(waiting) is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_comes_back_before_the_assignment_rebalances() -> None:
    world = GroupWorld()
    tokens = [world.join(instance="a"), world.join(instance="b")]
    world.advance(0)
    a, b = (world.replies[token].member_id for token in tokens)
    waiting = world.sync(b, 1, instance="b")
    world.join(instance="b")
    assert world.error(waiting) is ErrorCode.FENCED_INSTANCE_ID
    assert world.group.state is PREPARING
    assert world.heartbeat(a, 1, instance="a") is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_static_member_that_comes_back_with_other_protocols_rebalances() -> None:
    world = GroupWorld()
    data = subscription("t")
    token = world.join(instance="a", protocols={"range": data, "sticky": data})
    world.advance(0)
    a = world.replies[token].member_id
    world.sync(a, 1, {}, instance="a")
    token = world.join(instance="a", protocols={"sticky": data, "range": data})
    assert world.replies[token].generation_id == 2
    assert world.replies[token].protocol_name == "sticky"


def test_a_static_member_is_missed_only_when_its_session_is_over() -> None:
    world, a, b = static_group()
    token = world.join(a, instance="a", session_ms=100_000)
    world.advance(9_999)
    assert token not in world.replies and b in world.group.members
    world.advance(1)
    assert world.replies[token].generation_id == 2
    assert list(world.group.members) == [a]


def test_a_rebalance_that_no_static_member_joins_waits_for_their_sessions() -> None:
    world = GroupWorld()
    token = world.join(instance="a", session_ms=200_000)
    dynamic = world.join(version=3, session_ms=10_000)
    world.advance(0)
    a, d = (world.replies[t].member_id for t in (token, dynamic))
    world.sync(d, 1)
    world.sync(a, 1, {}, instance="a")
    world.advance(10_000)  # the dynamic member expires, the static one does not come
    world.advance(60_000)
    assert list(world.group.members) == [a] and world.group.state is PREPARING
    world.advance(200_000)
    assert world.group.state is GroupState.EMPTY


def test_an_administrator_removes_static_members_by_their_instances() -> None:
    world, a, _ = static_group()
    assert world.leave(("", "b"), ("", "z"), "") == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert list(world.group.members) == [a]


def test_a_group_is_restarted_with_its_members_and_assignments() -> None:
    world, a, b = static_group()
    world.restart()
    assert world.group.state is GroupState.STABLE and world.group.generation == 1
    assert world.replies[world.sync(b, 1, instance="b")].assignment == b"B"
    assert world.heartbeat(a, 1, instance="a") is ErrorCode.NONE
    world.advance(10_000)
    assert world.group.state is GroupState.EMPTY, "sessions count from the restart"


def test_a_group_is_restarted_as_its_last_record_says() -> None:
    """A member may have been in earlier generations, and said something else there."""
    world = GroupWorld()
    first, second = {"range": subscription("t")}, {"range": subscription("u")}
    (member_id,) = world.form(1, protocols=first, session_ms=10_000)
    rejoined = world.join(member_id, protocols=second, session_ms=20_000, rebalance_ms=30_000)
    world.sync(member_id, world.replies[rejoined].generation_id, {member_id: b"new"})
    before = world.coordinator.settled_view()
    world.restart()
    assert world.coordinator.settled_view() == before
    assert world.group.subscribed_topics == {"u"}
    member = world.group.members[member_id]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (20_000, 30_000)
    world.advance(19_999)
    assert world.heartbeat(member_id, 2) is ErrorCode.NONE


def test_a_group_is_restarted_after_its_protocol_changed() -> None:
    """As when a fleet moves on to another assignor, one restart after the other."""
    world = GroupWorld()
    both = {"sticky": subscription("t"), "range": subscription("t")}
    old = world.new_id(protocols={"range": subscription("t")})
    new = world.new_id(protocols=both)
    tokens = [world.join(old), world.join(new, protocols=both)]
    world.advance(0)
    assert world.replies[tokens[0]].protocol_name == "range"
    world.sync(old, 1, {old: b"1", new: b"1"})
    world.leave(old)
    world.join(new, protocols=both)
    assert world.group.protocol == "sticky"
    world.sync(new, 2, {new: b"2"}, protocol="sticky")
    world.restart()
    assert world.group.state is GroupState.STABLE and world.group.protocol == "sticky"
    assert world.replies[world.sync(new, 2, protocol="sticky")].assignment == b"2"


def test_a_restart_before_the_assignment_was_stored_forgets_the_generation() -> None:
    world = GroupWorld()
    ids = world.form(2)
    world.join(ids[0])
    world.join(ids[1])
    world.committing = False
    waiting = world.sync(ids[0], 2, {ids[0]: b"new"})
    world.restart()
    world.committing = True
    assert waiting not in world.replies
    assert world.group.generation == 1
    assert world.error(world.sync(ids[0], 2, {})) is ErrorCode.ILLEGAL_GENERATION
    assert world.replies[world.sync(ids[0], 1)].assignment == ids[0].encode()


def test_a_join_without_anything_is_refused_and_does_not_crash() -> None:
    world = GroupWorld()
    decision = world.coordinator.decide_join_group(JoinGroupRequest(), Caller(1, 9), 0)
    assert decision.replies[0][1].error_code == ErrorCode.INVALID_GROUP_ID
