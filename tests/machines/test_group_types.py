"""A second type of groups (`rota_groups`): a room of its own and a row are all that it needs."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.group.caller import Caller
from fencepost.machines.group.classic.group import ClassicGroup
from fencepost.machines.group.classic.groups import ClassicGroups
from fencepost.machines.group.classic.member import GroupState
from fencepost.machines.group.codec import GroupCodec
from fencepost.machines.group.group import Group
from fencepost.machines.image import ClusterImage, PartitionImage, TopicImage, diff
from fencepost.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.group import GroupMetadataKey
from fencepost.wire.types import Uuid

from .group_world import GroupWorld, compact, replay
from .rota_groups import POISON, ROTA, SESSION_MS, RotaGroups, assign_work

CLASSIC_ALONE = (ClassicGroups,)

NONE = ErrorCode.NONE
TYPES = (ClassicGroups, RotaGroups)
IDS = {name: Uuid(bytes([number]) * 16) for number, name in enumerate(("t", "u", POISON), 1)}
WORK = assign_work("g")


def image_of(**partitions: int) -> ClusterImage:
    """A cluster with these topics."""
    image = ClusterImage()
    one = PartitionImage((1,), (1,), 1, 0, 0)
    for name, count in partitions.items():
        topic = TopicImage(name, IDS[name], (one,) * count)
        image = ClusterImage(
            topics_by_name=image.topics_by_name.set(name, topic),
            topics_by_id=image.topics_by_id.set(topic.topic_id, topic),
        )
    return image


class RotaWorld(GroupWorld):
    """A shard with groups of both types, and a topic with two partitions."""

    def __init__(self, **said: Any) -> None:
        super().__init__(types=TYPES, **said)
        self.image = image_of(t=2)

    @property
    def rota(self) -> RotaGroups:
        return self.coordinator.of_type(RotaGroups)

    def beat(
        self, member_id: str, epoch: int = 0, topics: tuple[str, ...] = ("t",), group: str = "g"
    ) -> int:
        return self.ask(lambda token: self.rota.heartbeat(group, member_id, epoch, topics, token))

    def assigned(self, member_id: str, epoch: int) -> tuple[int, list[int]]:
        """What the member hears that it is in, and has."""
        error, known, held = self.replies[self.beat(member_id, epoch)]
        assert error is NONE
        return known, sorted(index for _, index in held)

    def downgrade(self) -> ErrorCode:
        token = self.ask(lambda token: self.rota.downgrade("g", token, self.wall))
        error: ErrorCode = self.replies[token]
        return error

    def listed(self, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> dict[str, Any]:
        token = self.ask(lambda token: self.coordinator.decide_list_groups(states, types, token))
        return {one.group_id: (one.group_type, one.group_state) for one in self.replies[token]}

    def describe(self, version: int, *group_ids: str) -> list[Any]:
        token = self.ask(
            lambda token: self.coordinator.decide_describe_groups(group_ids, version, token)
        )
        answers: list[Any] = self.replies[token]
        return answers

    def delete(self, *group_ids: str) -> list[ErrorCode]:
        token = self.ask(lambda token: self.coordinator.decide_delete_groups(group_ids, token))
        return [ErrorCode(one.error_code) for one in self.replies[token]]


def check(world: RotaWorld) -> None:
    """Memory is counted right, and the log says what is known, compacted or not."""
    groups: list[Group] = list(world.coordinator.groups.values())
    assert world.memory.used_bytes == sum(group.counted_bytes for group in groups)
    known = world.coordinator.durable_view()
    for log in (world.log, compact(world.log)):
        assert replay(log, types=TYPES).durable_view() == known


def test_members_share_partitions_by_work_elsewhere() -> None:
    world = RotaWorld()
    assert world.replies[world.beat("a")] == (NONE, 0, ())
    world.finish_work(WORK)
    assert world.assigned("a", 1) == (1, [0, 1])
    world.beat("b")
    world.finish_work(WORK)
    assert (world.assigned("a", 1), world.assigned("b", 0)) == ((2, [0]), (2, [1]))
    check(world)


def test_groups_are_listed_by_type_and_state() -> None:
    world = RotaWorld()
    world.beat("a")
    world.form(group="c")
    assert world.listed() == {"g": (ROTA, "Assigning"), "c": ("classic", "Stable")}
    assert world.listed(types=("ROTA",)) == {"g": (ROTA, "Assigning")}
    assert world.listed(states=("assigning", "x")) == {"g": (ROTA, "Assigning")}
    assert world.listed(types=("classic",), states=("Assigning",)) == {}
    assert world.listed(types=("share",)) == {}


def test_a_type_describes_its_own_groups() -> None:
    world = RotaWorld()
    world.beat("a")
    world.form(group="c")
    [old] = world.describe(5, "g")
    assert (old.group_state, old.error_code, old.members) == ("Dead", NONE, [])
    [new, mine] = world.describe(6, "g", "c")
    assert new.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert new.error_message == "Group g is not a classic group."
    assert (mine.group_state, len(mine.members)) == ("Stable", 2)
    token = world.ask(lambda token: world.rota.describe(["g", "c", "x"], token))
    assert world.replies[token] == [
        {"group_id": "g", "epoch": 1, "members": ["a"]},
        "Group c is not a rota group.",
        "Group x not found.",
    ]


def test_offsets_are_committed_and_fetched_by_member_epoch() -> None:
    world = RotaWorld()
    for member in ("a", "b"):
        world.beat(member)
    world.finish_work(WORK)
    world.beat("c")
    world.finish_work(WORK)
    assert world.assigned("a", 2) == (3, [0])

    def commit(member: str, epoch: int, partition: int) -> ErrorCode:
        said = {"member_id": member, "generation": epoch, "partition": partition}
        return world.commit_error(**said, topic_id=IDS["t"])

    assert commit("a", 3, 0) is NONE
    assert commit("a", 2, 0) is NONE, "an older epoch, for what the member still has"
    assert commit("a", 2, 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit("a", 4, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit("x", 3, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("", -1, 0) is ErrorCode.UNKNOWN_MEMBER_ID, "an administrator, with members there"
    assert world.coordinator.groups["g"].refuse_fetch("a", 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert world.offset_fetch("g")["t", 0][0] == 1
    check(world)


def test_a_member_that_is_silent_is_removed_and_the_others_go_on() -> None:
    world = RotaWorld()
    world.beat("a")
    world.advance(SESSION_MS - 1)
    world.beat("b")
    world.advance(1)
    assert world.coordinator.groups["g"].member_count == 1
    world.finish_work(WORK)
    assert world.assigned("b", 0) == (3, [0, 1])


def test_timers_and_work_go_on_behind_a_load() -> None:
    world = RotaWorld()
    world.beat("a")
    assert world.works
    world.restart()
    world.finish_work(WORK)
    assert world.assigned("a", 1) == (1, [0, 1])
    world.restart()
    assert not world.works, "there is nothing to assign"
    world.advance(SESSION_MS)
    assert world.coordinator.groups["g"].is_empty


def test_topics_that_change_are_assigned_from_the_new_image() -> None:
    world = RotaWorld()
    world.beat("a")
    world.finish_work(WORK)
    before, world.image = world.image, image_of(t=3, u=1)
    world.carry_out(lambda: world.coordinator.decide_image_changed(diff(before, world.image)))
    world.finish_work(WORK)
    assert world.assigned("a", 1) == (2, [0, 1, 2])
    before, world.image = world.image, image_of(t=3, u=2)
    world.carry_out(lambda: world.coordinator.decide_image_changed(diff(before, world.image)))
    assert not world.works, "it does not read that topic"


# Work elsewhere that comes back to something else


def test_work_for_an_epoch_that_has_moved_changes_nothing() -> None:
    world = RotaWorld()
    world.beat("a")
    stale = world.works[WORK]
    world.beat("b")
    before = len(world.log)
    world.works[("stale",)] = stale
    world.finish_work(("stale",))
    assert len(world.log) == before
    world.finish_work(WORK)
    assert world.assigned("b", 0) == (2, [1])


@pytest.mark.parametrize("end", ["deleted", "converted", "converted and back"])
def test_work_for_a_group_that_is_gone_changes_nothing(end: str) -> None:
    world = RotaWorld()
    world.beat("a")
    world.beat("a", -1)
    stale = world.works[WORK]
    if end == "deleted":
        assert world.delete("g") == [NONE]
    else:
        assert world.downgrade() is NONE
    assert WORK not in world.works, "its result is not wanted"
    if end == "converted and back":
        world.beat("b")
        assert world.works.pop(WORK).spec.epoch == 1
    before = len(world.log)
    world.works[("stale",)] = stale
    world.finish_work(("stale",))
    assert len(world.log) == before
    check(world)


def test_work_that_fails_is_tried_again_later() -> None:
    world = RotaWorld()
    world.image = image_of(t=2, poison=1)
    world.beat("a", topics=("t", POISON))
    world.finish_work(WORK)
    assert world.notes[-1] == "group g: this topic cannot be assigned"
    assert not world.works
    world.image = image_of(t=2)
    world.advance(1_000)
    world.finish_work(WORK)
    assert world.replies[world.beat("a", 1, ("t", POISON))][1] == 1


def test_what_follows_from_work_is_reverted_if_the_log_refuses_it() -> None:
    world = RotaWorld()
    world.beat("a")
    world.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    world.finish_work(WORK)
    world.refusing = None
    assert world.assigned("a", 0) == (0, [])
    world.finish_work(WORK)
    assert world.assigned("a", 1) == (1, [0, 1])
    check(world)


# Conversion


def batches_of(world: RotaWorld, before: int) -> list[tuple[str, bool]]:
    """The records since then: the names of their keys' classes, and whether they have values."""
    codec = GroupCodec(TYPES)
    found = [codec.decode(key, value) for key, value in world.log[before:]]
    return [(type(one[0]).__name__, one[1] is not None) for one in found if one is not None]


def test_a_classic_group_with_members_becomes_another_type_in_one_batch() -> None:
    world = RotaWorld()
    ids = world.form()
    world.commit_error(member_id=ids[0], generation=1, offset=7)
    waiting = world.join(ids[0])  # it leads, and asks for a rebalance
    before = len(world.log)
    assert world.replies[world.beat("a")] == (NONE, 0, ())
    assert batches_of(world, before) == [
        ("GroupMetadataKey", False),
        ("ShareGroupMemberMetadataKey", True),
        ("ShareGroupMetadataKey", True),
    ]
    assert world.error(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.offset_fetch("g")["t", 0][0] == 7, "offsets stay"
    assert all(name[0] in (ROTA, "expiry") for name in world.timers)
    assert world.heartbeat(ids[0], 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.error(world.join()) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.leave(ids[0]) == [ErrorCode.UNKNOWN_MEMBER_ID]
    check(world)
    world.restart()
    assert world.listed() == {"g": (ROTA, "Assigning")}


def test_a_group_becomes_classic_with_its_members_in_one_batch() -> None:
    world = RotaWorld()
    for member in ("a", "b"):
        world.beat(member)
    world.finish_work(WORK)
    world.beat("c")
    before = len(world.log)
    assert world.downgrade() is NONE
    names = batches_of(world, before)
    assert names[-1] == ("GroupMetadataKey", True)
    assert all(not has_value for _, has_value in names[:-1])
    assert not world.works
    assert not any(name[0] == ROTA for name in world.timers)
    assert world.group.state is GroupState.STABLE
    assert sorted(world.group.members) == ["a", "b", "c"]
    assert world.heartbeat("a", 3) is NONE
    check(world)


def test_an_empty_group_becomes_classic_when_a_classic_member_joins() -> None:
    world = RotaWorld()
    world.beat("a")
    world.beat("a", -1)
    member = world.new_id()
    assert world.listed() == {"g": ("classic", "Empty")}
    token = world.join(member)
    world.advance(0)
    assert world.error(token) is NONE
    check(world)
    world.restart()
    assert world.listed() == {"g": ("classic", "Empty")}, "that there is a group is stored"


def test_a_conversion_is_one_atomic_decision_both_ways() -> None:
    world = RotaWorld()
    world.form()
    there = world.rota.heartbeat("g", "a", 0, ("t",), "token")
    assert there.is_atomic
    assert [value is None for _, value in there.records] == [True, False, False]
    world.beat("a")
    back = world.rota.downgrade("g", "token", world.wall)
    assert back.is_atomic
    assert [value is None for _, value in back.records] == [True, True, True, False]
    world.beat("a", -1)
    world.finish_work(WORK)
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    caller = Caller("token", 9, "c", "/127.0.0.1", "u")
    by_join = world.coordinator.decide_join_group(join, caller, world.wall)
    assert by_join.is_atomic
    assert [value is None for _, value in by_join.records] == [True, True, False]


def test_a_refused_join_converts_nothing() -> None:
    world = RotaWorld()
    world.beat("a")
    world.beat("a", -1)
    before = len(world.log)
    assert world.error(world.join(protocols={})) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.error(world.join("unknown")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.error(world.join(session_ms=1)) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert (len(world.log), world.listed()) == (before, {"g": (ROTA, "Empty")})


@pytest.mark.parametrize("to", ["rota", "classic", "classic by a join"])
def test_a_conversion_that_the_log_refuses_leaves_the_group_as_it_was(to: str) -> None:
    """That nothing is changed is asserted by the world, which reverts."""
    world = RotaWorld()
    if to == "rota":
        ids = world.form()
        waiting = world.join(ids[0])
    else:
        world.beat("a")
    if to == "classic by a join":
        world.beat("a", -1)
    world.offset_commit(3, partition=1)
    before, timers, works = world.listed(), dict(world.timers), dict(world.works)
    world.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    if to == "rota":
        token = world.beat("b")
        assert waiting not in world.replies, "it waits on"
    elif to == "classic":
        token = world.ask(lambda token: world.rota.downgrade("g", token, world.wall))
    else:
        token = world.join()
    assert world.refused[token] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert (world.listed(), world.timers, world.works) == (before, timers, works)
    world.refusing = None
    check(world)


def test_deletion_leaves_nothing_of_a_group_of_any_type() -> None:
    world = RotaWorld()
    world.beat("a")
    assert world.delete("g") == [ErrorCode.NON_EMPTY_GROUP]
    world.finish_work(WORK)
    world.beat("a", -1)
    world.offset_commit(3)
    assert world.delete("g") == [NONE]
    assert (world.listed(), world.works, compact(world.log)) == ({}, {}, [])
    assert set(world.timers) <= {("expiry",)}
    check(world)


def test_an_empty_group_goes_with_its_last_offset() -> None:
    world = RotaWorld(offsets_retention_ms=60_000, offsets_retention_check_ms=10_000)
    world.restart()
    world.beat("a")
    world.finish_work(WORK)
    world.commit_error(member_id="a", generation=1, topic_id=IDS["t"])
    world.beat("a", -1)
    world.advance(50_000)
    assert world.listed() == {"g": (ROTA, "Empty")}
    world.advance(20_000)
    assert (world.listed(), compact(world.log)) == ({}, [])


# Types that a node does not offer


def test_records_of_types_that_are_not_offered_are_passed_over_and_not_lost() -> None:
    world = RotaWorld()
    world.beat("a")
    world.finish_work(WORK)
    world.form(group="c")
    old = GroupWorld(types=CLASSIC_ALONE)  # of a release that knows classic groups alone
    old.log = list(world.log)
    old.committed = len(old.log)
    old.restart()
    assert list(old.coordinator.groups) == ["c"]
    assert old.commit_error(group="g", member_id="a", generation=1) is ErrorCode.GROUP_ID_NOT_FOUND
    left = old.coordinator.groups["c"]
    assert isinstance(left, ClassicGroup)
    assert old.leave(*left.members, group="c") == [NONE, NONE]
    world.log, world.committed = old.log, len(old.log)
    world.restart()
    assert world.listed() == {"g": (ROTA, "Stable"), "c": ("classic", "Empty")}
    assert world.assigned("a", 1) == (1, [0, 1])


def test_the_later_record_wins_if_another_node_took_the_id_for_a_classic_group() -> None:
    """A node that does not offer the type does not see that the id is taken."""
    world = RotaWorld()
    world.beat("a")
    old = GroupWorld(types=CLASSIC_ALONE)
    old.log = list(world.log)
    old.committed = len(old.log)
    old.restart()
    old.form()
    assert GroupCodec(CLASSIC_ALONE).decode(*old.log[-1]) is not None
    world.log, world.committed = old.log, len(old.log)
    world.restart()
    assert world.listed() == {"g": ("classic", "Stable")}


def test_a_tombstone_for_a_group_of_another_type_changes_nothing() -> None:
    world = RotaWorld()
    world.beat("a")
    world.coordinator.apply((GroupMetadataKey(group="g"), None), len(world.log))
    assert world.listed() == {"g": (ROTA, "Assigning")}
    world.form(group="c")
    for record_key in list(world.coordinator.groups["g"].record_keys()):
        record_key.group_id = "c"  # type: ignore[attr-defined]
        world.coordinator.apply((record_key, None), len(world.log))
    assert world.listed()["c"] == ("classic", "Stable")


def test_a_decision_that_forgets_to_dissolve_the_group_before_is_not_applied() -> None:
    world = RotaWorld()
    world.form()
    rota = RotaWorld()
    rota.beat("a")
    record = GroupCodec(TYPES).decode(*rota.log[-1])
    assert record is not None
    world.coordinator.undo_log.begin()
    with pytest.raises(AssertionError, match="group g is classic still"):
        world.coordinator.apply(record, len(world.log))
    world.coordinator.undo_log.revert()
    check(world)
