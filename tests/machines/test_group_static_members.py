"""Static members (KIP-345): they come back as who they were, also after a restart of the group."""

from __future__ import annotations

import pytest

from fencepost.machines.group.classic.member import GroupState
from fencepost.wire.errors import ErrorCode

from .group_world import GroupWorld, subscription

PREPARING = GroupState.PREPARING_REBALANCE


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
