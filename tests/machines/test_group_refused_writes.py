"""What becomes of a group when the log refuses its records, as in Kafka: nothing has happened."""

from __future__ import annotations

import pytest

from fencepost.machines.group.caller import Caller
from fencepost.machines.group.classic.member import GroupState
from fencepost.wire.api.sync_group import SyncGroupRequest
from fencepost.wire.errors import ErrorCode

from .group_world import RETRY_MS, GroupWorld

REFUSED = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def completing(world: GroupWorld) -> tuple[list[str], int]:
    """A group of two whose members know their generation; the second waits in SyncGroup."""
    ids = [world.new_id() for _ in range(2)]
    tokens = [world.join(member_id) for member_id in ids]
    world.advance(0)
    assert world.error(tokens[0]) is ErrorCode.NONE
    return ids, world.sync(ids[1], 1)


def test_members_that_wait_for_a_refused_assignment_get_the_error_and_the_group_rebalances(
    world: GroupWorld,
) -> None:
    ids, follower = completing(world)
    world.refusing = REFUSED
    leader = world.sync(ids[0], 1, {ids[0]: b"a", ids[1]: b"b"})
    assert world.refused == {leader: REFUSED} and leader not in world.replies
    assert world.error(follower) is REFUSED
    assert world.group.state is GroupState.PREPARING_REBALANCE and world.group.generation == 1
    assert all(member.assignment == b"" for member in world.group.members.values())
    world.refusing = None
    tokens = [world.join(member_id) for member_id in ids]
    assert [world.replies[token].generation_id for token in tokens] == [2, 2]


def test_who_waits_for_a_refused_assignment_has_a_session_timeout_from_then_on(
    world: GroupWorld,
) -> None:
    ids, _ = completing(world)
    world.advance(9_000)
    world.refusing = REFUSED
    world.sync(ids[0], 1)
    world.refusing = None
    world.advance(2_000)
    assert list(world.group.members) == [ids[1]], "the leader was silent since it joined"


def test_a_group_whose_generation_is_over_is_not_told_of_its_assignment(world: GroupWorld) -> None:
    ids, follower = completing(world)
    request = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=ids[0],
        protocol_type="consumer",
        protocol_name="range",
    )
    decision = world.coordinator.decide_sync_group(request, Caller(-1, 5), world.wall)
    assert decision.on_refused is not None
    world.leave(ids[1])
    assert world.error(follower) is ErrorCode.UNKNOWN_MEMBER_ID
    late = decision.on_refused(REFUSED)
    assert not late.changes and not late.replies


def test_a_static_member_whose_new_id_is_refused_keeps_the_one_it_had(world: GroupWorld) -> None:
    token = world.join(instance="i")
    world.advance(0)
    old_id = world.replies[token].member_id
    world.sync(old_id, 1, {old_id: b"a"}, instance="i")
    world.refusing = REFUSED
    token = world.join(instance="i")
    assert world.refused == {token: REFUSED}
    assert world.group.static_members == {"i": old_id} and list(world.group.members) == [old_id]
    world.refusing = None
    assert world.heartbeat(old_id, 1, instance="i") is ErrorCode.NONE
    token = world.join(instance="i")
    assert world.group.static_members == {"i": world.replies[token].member_id} != {"i": old_id}


def test_a_member_that_expires_while_the_log_refuses_is_removed_later(world: GroupWorld) -> None:
    (member_id,) = world.form(1)
    world.refusing = REFUSED
    world.advance(10_000 + 3 * RETRY_MS)
    assert list(world.group.members) == [member_id] and world.group.state is GroupState.STABLE
    world.refusing = None
    world.advance(RETRY_MS)
    assert world.group.members == {} and world.group.state is GroupState.EMPTY


def test_a_member_whose_leaving_is_refused_is_still_there(world: GroupWorld) -> None:
    (member_id,) = world.form(1)
    world.refusing = REFUSED
    token = world.ask_to_leave(member_id)
    assert world.refused == {token: REFUSED}
    world.refusing = None
    assert world.heartbeat(member_id, 1) is ErrorCode.NONE


def test_refused_commits_and_deletions_leave_offsets_and_memory_as_they_were(
    world: GroupWorld,
) -> None:
    world.form(2)
    world.leave(*list(world.group.members))
    world.offset_commit(5)
    before, used_bytes = world.coordinator.durable_view(), world.memory.used_bytes
    world.refusing = REFUSED
    tokens = [
        world.offset_commit(6),
        world.offset_commit(7, group="new"),
        world.ask(lambda token: world.coordinator.decide_delete_groups(["g"], token)),
    ]
    assert world.refused == dict.fromkeys(tokens, REFUSED)
    assert world.coordinator.durable_view() == before and world.memory.used_bytes == used_bytes
    assert list(world.coordinator.groups) == ["g"]
