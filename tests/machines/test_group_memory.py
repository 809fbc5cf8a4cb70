"""What members say is bounded: for one member, one group, and all groups of a node."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fencepost.batch.records import build_batch
from fencepost.machines.group.classic.member import GroupState
from fencepost.machines.group.classic.membership import RECORD_ALLOWANCE_BYTES
from fencepost.machines.group.classic.rebalance import BATCH_OVERHEAD_BYTES, fits_in_record
from fencepost.machines.group.memory import (
    GROUP_BYTES,
    MEMBER_BYTES,
    RESERVED_PART,
    SMALL_MEMBER_BYTES,
    GroupMemory,
    group_bytes,
    member_bytes,
)
from fencepost.machines.group.records import GROUP_METADATA_VERSION
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.group import GroupMetadataKey, encode_key, encode_value

from .group_world import GroupWorld

RECORD_BYTES = 100_000
LARGE = RECORD_BYTES - RECORD_ALLOWANCE_BYTES
"""The most metadata a member may have for one protocol."""


def world_of(**settings: int) -> GroupWorld:
    node_bytes = settings.pop("node_bytes", 1 << 30)
    world = GroupWorld(memory=GroupMemory(node_bytes), **settings)
    world.coordinator.max_batch_bytes = RECORD_BYTES
    return world


def says(*sizes: int) -> dict[str, bytes]:
    """Protocols with metadata of these sizes."""
    return {f"range{number}": bytes(size) for number, size in enumerate(sizes)}


# -- one member ------------------------------------------------------------------------------------


def test_metadata_that_no_record_could_have_is_refused_for_good() -> None:
    world = world_of()
    assert world.error(world.join(protocols=says(10, LARGE + 1))) is ErrorCode.MESSAGE_TOO_LARGE
    assert not world.coordinator.groups
    assert world.memory.used_bytes == 0
    assert world.error(world.join(protocols=says(10, LARGE))) is ErrorCode.MEMBER_ID_REQUIRED


def test_a_member_whose_metadata_became_too_large_keeps_what_it_had() -> None:
    world = world_of()
    (member_id,) = world.form(1)
    before_bytes = world.memory.used_bytes
    token = world.join(member_id, protocols={"range": bytes(LARGE + 1)})
    assert world.error(token) is ErrorCode.MESSAGE_TOO_LARGE
    assert world.memory.used_bytes == before_bytes
    assert world.heartbeat(member_id, 1) is ErrorCode.NONE


def test_an_assignment_that_cannot_be_written_is_answered_and_the_group_tries_again() -> None:
    """As Kafka does; the other groups of the shard notice nothing."""
    world = world_of()
    world.form(1, group="other")
    leader, follower = (world.new_id() for _ in range(2))
    tokens = [world.join(leader), world.join(follower)]
    world.advance(0)
    assert [world.error(token) for token in tokens] == [ErrorCode.NONE] * 2
    written = len(world.log)
    waiting = world.sync(follower, 1)
    refused = world.sync(leader, 1, {leader: b"x", follower: bytes(RECORD_BYTES)})
    assert world.error(waiting) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.error(refused) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(world.log) == written
    assert world.group.state is GroupState.PREPARING_REBALANCE
    assert "__consumer_offsets takes" in world.notes[-1]
    tokens = [world.join(leader), world.join(follower)]
    assert {world.replies[token].generation_id for token in tokens} == {2}
    synced = world.sync(leader, 2, {leader: b"x", follower: b"y"})
    assert world.error(synced) is ErrorCode.NONE
    assert world.group.state is GroupState.STABLE


def test_the_largest_assignment_that_can_be_written_is_written() -> None:
    world = world_of()
    member_id = world.new_id()
    world.join(member_id)
    world.advance(0)
    world.sync(member_id, 1, {member_id: bytes(RECORD_BYTES - 1000)})
    assert world.group.state is GroupState.STABLE


def test_what_fits_in_a_record_is_what_its_batch_takes_with_the_key() -> None:
    """A group id may be as long as a record."""
    world = world_of()
    group_id = "g" * 10_000
    world.form(2, group=group_id)
    group = world.coordinator.groups[group_id]
    key = encode_key(GroupMetadataKey(group=group_id))
    value = encode_value(
        group.as_record(dict.fromkeys(group.members, b"x"), -1), GROUP_METADATA_VERSION
    )
    size_bytes = len(build_batch([(key, value)]))
    least = next(
        most
        for most in range(size_bytes, size_bytes + BATCH_OVERHEAD_BYTES)
        if fits_in_record(group, dict.fromkeys(group.members, b"x"), most)
    )
    assert least == len(key) + len(value) + BATCH_OVERHEAD_BYTES


def test_who_waits_for_an_assignment_that_is_refused_has_a_session_timeout_from_then_on() -> None:
    world = world_of()
    leader, follower = (world.new_id() for _ in range(2))
    for member_id in (leader, follower):
        world.join(member_id)
    world.advance(0)
    world.sync(follower, 1)
    for _ in range(3):
        world.advance(6_000)
        world.heartbeat(leader, 1)
    world.sync(leader, 1, {leader: b"x", follower: bytes(RECORD_BYTES)})
    world.join(leader)
    world.advance(10_000 - 1)
    assert follower in world.group.members
    world.advance(1)
    assert follower not in world.group.members


def test_a_static_member_that_comes_back_with_more_than_a_record_has_causes_a_rebalance() -> None:
    world = world_of()
    token = world.join(instance="i")
    world.advance(0)
    member_id = world.replies[token].member_id
    world.sync(member_id, 1, {member_id: bytes(RECORD_BYTES // 2)}, instance="i")
    written = len(world.log)
    back = world.join(instance="i", protocols={"range": bytes(RECORD_BYTES // 2)})
    assert len(world.log) == written
    assert world.replies[back].generation_id == 2, "and was not answered with the old assignment"


# -- one group -------------------------------------------------------------------------------------


def test_a_group_has_room_for_so_much_and_no_more() -> None:
    world = world_of(max_bytes=300_000)
    first = world.join(protocols=says(90_000), version=3)
    second = world.join(protocols=says(90_000), version=3)
    third = world.join(protocols=says(90_000, 30_000), version=3)
    assert world.error(third) is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.advance(0)
    assert [world.error(token) for token in (first, second)] == [ErrorCode.NONE] * 2
    assert world.error(world.join(group="another", protocols=says(90_000))) == 79


def test_a_group_may_be_as_large_as_the_bound_and_not_a_byte_larger() -> None:
    def join_first(max_bytes: int) -> tuple[GroupWorld, ErrorCode | None]:
        world = world_of(max_bytes=max_bytes)
        token = world.join(protocols=says(5_000), version=3)
        world.advance(0)
        return world, world.error(token)

    size_bytes = join_first(1 << 20)[0].memory.used_bytes
    assert join_first(size_bytes)[1] is ErrorCode.NONE
    assert join_first(size_bytes - 1)[1] is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_member_that_needs_no_more_than_it_has_may_join_a_group_that_is_over_the_bound() -> None:
    """Assignments count too, and come later."""
    world = world_of(max_bytes=40_000)
    members = [world.new_id() for _ in range(2)]
    for member_id in members:
        world.join(member_id)
    world.advance(0)
    world.sync(members[0], 1, {member_id: bytes(45_000) for member_id in members})
    assert world.group.size_bytes > 80_000
    token = world.join(members[1])
    assert world.error(token) is ErrorCode.NONE


def test_all_that_a_member_says_counts() -> None:
    def counted(name: str = "", data: bytes = b"", assigned: bytes = b"", text: str = "") -> int:
        return member_bytes([(name, data)], assigned, text) - member_bytes([("", b"")], b"", "")

    assert counted(name="n" * 1_000) == 1_000
    assert counted(data=bytes(1_000)) == 1_000
    assert counted(assigned=bytes(1_000)) == 1_000
    assert counted(text="t" * 1_000) == 1_000


def test_assignments_of_a_generation_that_is_over_are_let_go_of() -> None:
    world = world_of()
    members = [world.new_id() for _ in range(2)]
    for member_id in members:
        world.join(member_id)
    world.advance(0)
    world.sync(members[0], 1, {member_id: bytes(20_000) for member_id in members})
    assert world.memory.used_bytes > 40_000
    for member_id in members:
        world.join(member_id, protocols={"range": b"other"})
    assert world.group.state is GroupState.COMPLETING_REBALANCE
    world.join(members[1], protocols={"range": b"another"})
    assert world.group.state is GroupState.PREPARING_REBALANCE
    assert world.memory.used_bytes < 20_000


def test_what_a_group_is_counted_with_is_what_it_takes_whoever_came_and_went() -> None:
    world = world_of()

    def check() -> None:
        counted = world.group.size_bytes
        world.group.measure()
        assert counted == world.group.size_bytes

    member_id = world.new_id()
    world.join(member_id)
    check()
    world.advance(0)
    world.leave(world.new_id())
    check()
    for length in (1, 50):  # a static member under another id
        world.join(instance="i", protocols={"range": bytes(length)})
        assert world.group.static_members
        while world.last_token < 10:
            world.heartbeat(member_id, 1)
        check()


def test_all_protocols_of_a_member_count() -> None:
    world = world_of(max_bytes=300_000)
    said = says(80_000, 80_000, 80_000, 80_000)
    assert world.error(world.join(protocols=said)) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not world.coordinator.groups


def test_a_member_of_a_full_group_may_join_again_with_what_it_had() -> None:
    world = world_of(max_bytes=100_000)
    token = world.join(protocols=says(90_000), version=3)
    world.advance(0)
    member_id = world.replies[token].member_id
    again = world.join(member_id, protocols=says(90_000))
    assert world.error(again) is ErrorCode.NONE
    grown = world.join(member_id, protocols=says(99_000))
    assert world.error(grown) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_static_member_of_a_full_group_may_come_back() -> None:
    world = world_of(max_bytes=100_000)
    world.join(instance="i", protocols=says(90_000))
    world.advance(0)
    back = world.join(instance="i", protocols=says(90_000))
    assert world.error(back) is ErrorCode.NONE


def test_ids_count() -> None:
    world = world_of(max_bytes=90_000)
    said = {"client": "c" * 30_000, "instance": "i" * 30_000}
    assert world.error(world.join(**said)) is ErrorCode.GROUP_MAX_SIZE_REACHED
    ids = [world.replies[world.join(client="c" * 30_000)].member_id for _ in range(2)]
    assert [bool(member_id) for member_id in ids] == [True, False], "ids given out count"


# -- a node ----------------------------------------------------------------------------------------


def test_all_groups_together_have_room_for_so_much() -> None:
    world = world_of(node_bytes=400_000)
    errors = []
    for number in range(5):
        token = world.join(group=f"g{number}", protocols=says(90_000), version=3)
        world.advance(0)
        errors.append(world.error(token))
    assert errors == [ErrorCode.NONE] * 3 + [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert sorted(world.coordinator.groups) == ["g0", "g1", "g2"]
    small = world.join(group="small", protocols=says(SMALL_MEMBER_BYTES // 2), version=3)
    world.advance(0)
    assert world.error(small) is ErrorCode.NONE, "the last part is kept for those who need little"


@pytest.mark.parametrize(
    ("used_bytes", "more_bytes", "admitted"),
    [
        (0, 750_000, True),
        (0, 750_001, False),
        (750_000, SMALL_MEMBER_BYTES, True),
        (750_000, SMALL_MEMBER_BYTES + 1, False),
        (1_000_000 - SMALL_MEMBER_BYTES, SMALL_MEMBER_BYTES, True),
        (1_000_001 - SMALL_MEMBER_BYTES, SMALL_MEMBER_BYTES, False),
        (2_000_000, 0, True),
        (2_000_000, -5, True),
        (2_000_000, 1, False),
    ],
)
def test_the_last_quarter_is_for_small_members(
    used_bytes: int, more_bytes: int, admitted: bool
) -> None:
    assert RESERVED_PART == 4
    memory = GroupMemory(1_000_000)
    memory.used_bytes = used_bytes
    assert memory.admits(more_bytes) is admitted


def leave(world: GroupWorld, member_id: str) -> None:
    world.leave(member_id)


def expire(world: GroupWorld, _: str) -> None:
    world.advance(10_001)


@pytest.mark.parametrize("go", [leave, expire])
def test_memory_is_free_again_when_the_members_are_gone(
    go: Callable[[GroupWorld, str], None],
) -> None:
    world = world_of()
    token = world.join(protocols=says(LARGE), version=3)
    world.advance(0)
    member_id = world.replies[token].member_id
    world.sync(member_id, 1, {member_id: b"x"}, protocol="range0")
    assert world.memory.used_bytes > LARGE
    go(world, member_id)
    assert world.group.state is GroupState.EMPTY
    assert GROUP_BYTES < world.memory.used_bytes < GROUP_BYTES + 100


def test_ids_that_nobody_came_back_for_are_free_again() -> None:
    world = world_of()
    for _ in range(3):
        world.new_id()
    assert world.memory.used_bytes > 3 * MEMBER_BYTES
    world.advance(10_001)
    assert world.memory.used_bytes == world.group.size_bytes == group_bytes("g")
    world.restart()
    world.advance(world.config.offsets_retention_check_ms)
    assert not world.coordinator.groups
    assert world.memory.used_bytes == 0


def test_a_client_that_left_in_join_is_free_again_in_the_end() -> None:
    """It sends no LeaveGroup; its session times out in the coordinator, as in Kafka."""
    world = world_of()
    world.join(protocols=says(LARGE), version=3)
    world.advance(0)
    assert world.memory.used_bytes > LARGE
    world.advance(70_000)
    assert world.memory.used_bytes < GROUP_BYTES + 100


def test_what_was_loaded_counts_and_what_was_thrown_away_does_not() -> None:
    world = world_of()
    world.form(3)
    used_bytes = world.memory.used_bytes
    world.coordinator.discard()
    assert world.memory.used_bytes == 0
    world.restart()
    assert world.memory.used_bytes == used_bytes


def test_a_deleted_group_takes_nothing() -> None:
    world = world_of()
    (member_id,) = world.form(1)
    world.commit_error(member_id=member_id, generation=1)
    world.leave(member_id)
    world.ask(lambda token: world.coordinator.decide_delete_groups(["g"], token))
    assert not world.coordinator.groups
    assert world.memory.used_bytes == 0
