"""Joining a group, and joining again: ids, protocols, leaders, limits, repeated requests."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.group.classic.member import GroupState
from fencepost.machines.group.classic.membership import STRING_BYTES_MAX
from fencepost.machines.group.config import MAX_PENDING_MEMBERS, NEW_MEMBER_JOIN_TIMEOUT_MS
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
    for number in range(MAX_PENDING_MEMBERS):
        world.group.add_pending(str(number))
    assert world.error(world.join()) is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize("said", [{"client": "é" * 16_383}, {"instance": "i" * 32_767}])
def test_an_id_that_would_be_too_long_to_write_is_refused(said: dict[str, str]) -> None:
    world = GroupWorld()
    assert world.error(world.join(**said)) is ErrorCode.INVALID_REQUEST
    assert not world.coordinator.groups


def test_the_longest_id_that_can_be_written_is_given_out() -> None:
    world = GroupWorld()
    token = world.join(instance="i" * (STRING_BYTES_MAX - len("-u1")))
    world.advance(0)
    assert world.error(token) is ErrorCode.NONE
    assert len(world.replies[token].member_id) == STRING_BYTES_MAX


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
