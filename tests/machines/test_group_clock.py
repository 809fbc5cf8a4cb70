"""A wall clock that is set, forward or back: no member's time is over by it, and none has more."""

from __future__ import annotations

import pytest

from fencepost.machines.group.classic.member import GroupState
from fencepost.wire.errors import ErrorCode

from .group_world import GroupWorld

HOUR_MS = 3_600_000
SESSION_MS = 10_000
JUMPS_MS = pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS, 1, -1])


def set_clock(world: GroupWorld, by_ms: int) -> None:
    world.wall_ahead += by_ms


@JUMPS_MS
def test_a_session_ends_when_it_would_have(by_ms: int) -> None:
    world = GroupWorld()
    world.form(session_ms=SESSION_MS)
    world.advance(4_000)
    set_clock(world, by_ms)
    world.advance(SESSION_MS - 4_000 - 1)
    assert len(world.group.members) == 2
    world.advance(1)
    assert world.group.members == {}
    assert world.group.state is GroupState.EMPTY


@JUMPS_MS
def test_a_member_that_was_heard_of_after_its_timer_was_armed_keeps_its_time(by_ms: int) -> None:
    world = GroupWorld()
    silent, alive = world.form(session_ms=SESSION_MS)
    generation = world.group.generation
    world.advance(4_000)
    assert world.heartbeat(alive, generation) is ErrorCode.NONE
    set_clock(world, by_ms)
    world.advance(6_000)
    assert list(world.group.members) == [alive]
    assert silent not in world.group.members
    assert world.heartbeat(alive, generation) is ErrorCode.REBALANCE_IN_PROGRESS


@JUMPS_MS
def test_a_rebalance_waits_as_long_as_it_would_have(by_ms: int) -> None:
    world = GroupWorld(initial_rebalance_delay_ms=3_000)
    token = world.join(world.new_id())
    world.advance(1_000)
    set_clock(world, by_ms)
    world.advance(1_999)
    assert token not in world.replies
    world.advance(1)
    assert world.error(token) is ErrorCode.NONE


@JUMPS_MS
def test_assignments_are_waited_for_as_long_as_they_would_have_been(by_ms: int) -> None:
    world = GroupWorld()
    member = world.new_id()
    token = world.join(member, rebalance_ms=5_000, session_ms=30_000)
    world.advance(0)
    assert world.error(token) is ErrorCode.NONE
    set_clock(world, by_ms)
    world.advance(4_999)
    assert member in world.group.members
    world.advance(1)
    assert member not in world.group.members


@JUMPS_MS
def test_an_id_that_was_given_out_is_good_as_long_as_it_would_have_been(by_ms: int) -> None:
    world = GroupWorld()
    world.new_id(session_ms=SESSION_MS)
    set_clock(world, by_ms)
    world.advance(SESSION_MS - 1)
    assert world.group.pending_members
    world.advance(1)
    assert not world.group.pending_members
