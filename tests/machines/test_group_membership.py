"""Members of a group that is there: assignments, heartbeats, sessions, leaving."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from fencepost.machines.group.caller import Caller
from fencepost.machines.group.classic.group import ClassicGroup
from fencepost.machines.group.classic.member import GroupState, Member
from fencepost.machines.group.classic.rebalance import BATCH_OVERHEAD_BYTES, fits_in_record
from fencepost.machines.group.codec import GroupCodec
from fencepost.machines.group.records import encode_record
from fencepost.wire.api.join_group import JoinGroupRequest
from fencepost.wire.api.leave_group import LeaveGroupRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.group import GroupMetadataKey, GroupMetadataValue

from .group_world import GroupWorld, subscription

PREPARING = GroupState.PREPARING_REBALANCE
COMPLETING = GroupState.COMPLETING_REBALANCE


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
    assert len(world.log) == 2, "the record of the group just made, and that of its generation"


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
    assert len(world.log) == 1, "the record of the group just made"


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


def test_a_heartbeat_gives_another_session_timeout_and_changes_nothing_else() -> None:
    world = GroupWorld()
    (member_id,) = world.form(1)
    before = world.group
    world.advance(1_000)
    world.heartbeat(member_id, 1)
    assert world.group is before
    world.advance(9_999)
    assert list(world.group.members) == [member_id]
    world.advance(1)
    assert world.group.members == {}


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


@pytest.mark.parametrize("version", [3, 9])
def test_a_group_without_a_generation_is_kept_empty_until_offsets_expire(version: int) -> None:
    """As in Kafka: its record is written when its first member joins, or is given an id."""
    world = GroupWorld()
    if version == 9:
        world.leave(world.new_id())
    else:
        world.join(version=version)
        assert world.group.state is GroupState.PREPARING_REBALANCE
        assert world.group.joined_count == 1, "its record says nothing of the member that waits"
        world.restart()
    (entry,) = world.log
    key = GroupMetadataKey(group="g")
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=world.wall)
    assert entry == GroupCodec.encode((key, value))
    assert (world.group.state, world.group.generation) == (GroupState.EMPTY, 0)
    world.restart()
    assert world.coordinator.groups
    world.advance(world.config.offsets_retention_check_ms)
    assert not world.coordinator.groups
    assert world.log[-1] == GroupCodec.encode((key, None))


def test_a_refused_first_join_makes_no_group() -> None:
    world = GroupWorld()
    token = world.join(protocols={})
    assert world.error(token) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not world.log and not world.coordinator.groups


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


# Restarts


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


class Watched(dict[str, Any]):
    """Members of which it is known how many were looked at."""

    looked_at = 0

    def values(self) -> Any:
        for value in super().values():
            self.looked_at += 1
            yield value


def test_what_a_join_asks_of_a_group_is_not_asked_of_every_member() -> None:
    """Ten thousand members that join would cost a hundred million looks."""
    group = ClassicGroup("g")
    for number in range(100):
        protocols = (("range", b""), (f"own-{number}", b""), ("sticky", b""))
        member = Member(f"m{number}", None, "c", "h", 1, 1, protocols, join_token=number)
        group.add(member, "consumer")
    members = group.members = Watched(group.members)
    assert group.supports("consumer", ["sticky"])
    assert not group.supports("consumer", ["own-0"])
    assert group.has_common_protocol and group.has_all_joined
    group.update("m7", join_token=None)
    assert not group.has_all_joined
    assert (group.joined_count, members.looked_at) == (99, 3)


@given(
    st.lists(st.tuples(st.text(max_size=9), st.binary(max_size=40), st.binary(max_size=40))),
    st.text(max_size=9),
)
def test_whether_a_group_fits_in_a_record_is_known_exactly(said: Any, name: str) -> None:
    group = ClassicGroup(name)
    for number, (text, metadata, _) in enumerate(said):
        member = Member(f"{number}{text}", text or None, text, text, 1, 1, ((name, metadata),))
        if text not in group.static_members:
            group.add(member, name)
    group.protocol = name
    given_out = {one: said[number][2] for number, one in enumerate(group.members)}
    record = GroupMetadataKey(group=name), group.as_record(given_out, -1)
    key, value = encode_record(record)
    size = len(key) + len(value or b"") + BATCH_OVERHEAD_BYTES
    assert fits_in_record(group, given_out, size)
    assert not fits_in_record(group, given_out, size - 1)
