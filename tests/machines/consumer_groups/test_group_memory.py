"""What clients can make a coordinator keep of consumer groups is counted, and bounded."""

from __future__ import annotations

from fencepost.machines.group.config import GroupConfig
from fencepost.machines.group.consumer.member import Progress
from fencepost.machines.group.memory import GroupMemory, group_bytes
from fencepost.wire.errors import ErrorCode

from .world import ConsumerWorld, id_of, image_of

NONE = ErrorCode.NONE
FULL, LATER = ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.COORDINATOR_NOT_AVAILABLE
MANY = tuple(f"topic-{number}" for number in range(10_000))


def test_what_is_counted_is_given_back() -> None:
    world = ConsumerWorld()
    world.enter("a")
    for member in "bcd":
        world.enter(member, topics=("t", "u"), regex="t.*", assignor="range")
    world.finish_work(("consumer", "g", "regex"))
    world.advance(1_000)
    for _ in range(3):
        for member in "abcd":
            epoch = world.group.progress_of(member).epoch
            owned = {"t": sorted(world.group.progress_of(member).assigned.get(id_of("t"), ()))}
            world.beat(member, epoch, owned=owned)
    assert world.memory.used_bytes == world.group.counted_bytes > group_bytes("g") + 4 * 1024
    world.restart()
    assert world.memory.used_bytes == world.group.counted_bytes
    for member in "abcd":
        world.beat(member, -1)
    assert world.group.counted_bytes == group_bytes("g")
    assert world.memory.used_bytes == group_bytes("g")


def test_names_of_topics_are_kept_once() -> None:
    world = ConsumerWorld()
    world.enter("a", topics=MANY)
    first = world.group.counted_bytes
    assert first > 500_000
    for number in range(20):
        assert world.enter(f"m{number}", topics=MANY).error_code == NONE
    assert world.group.counted_bytes < first + 20 * 4_096
    assert len({id(one.topic_names) for one in world.group.members.values()}) == 1


def test_a_group_is_refused_more_than_it_may_have() -> None:
    world = ConsumerWorld(max_bytes=2_000_000)
    world.enter("a", topics=MANY)
    assert world.enter("b", topics=MANY[1:]).error_code == FULL
    assert world.enter("b", topics=MANY).error_code == NONE
    assert world.beat("b", 2, topics=MANY[1:]).error_code == FULL
    assert world.beat("b", 2, topics=()).error_code == NONE
    assert world.beat("a", 2).error_code == NONE, "who is there stays"


def test_partitions_to_be_assigned_are_counted_before_they_are() -> None:
    world = ConsumerWorld(max_bytes=1_000_000)
    world.image = image_of(t=20_000, u=10)
    assert world.enter("a").error_code == FULL
    assert world.enter("a", topics=("u",)).error_code == NONE
    assert world.beat("a", 2, topics=("u", "t")).error_code == FULL


def test_all_groups_together_have_what_there_is() -> None:
    topics = MANY[:5_000]
    world = ConsumerWorld(memory=GroupMemory(3_000_000))
    errors = [world.enter("a", topics=topics, group=f"g{number}").error_code for number in range(5)]
    assert errors[0] == NONE and errors[-1] == LATER
    assert world.enter("a", group="small").error_code == NONE, "small ones have a part of their own"
    used = world.memory.used_bytes
    for _ in range(100):
        world.enter("a", topics=topics, group="one-more")
    assert world.memory.used_bytes == used
    assert "one-more" not in world.coordinator.groups


def test_heartbeats_without_end_take_nothing() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.beat("a", 2)
    before, end = world.memory.used_bytes, len(world.log)
    for epoch in (2, 2, 7, 1, 0):
        for member in ("a", "x", "y"):
            world.beat(member, epoch or 9)
    assert (world.memory.used_bytes, len(world.log)) == (before, end)
    assert list(world.coordinator.groups) == ["g"]
    assert len(world.timers) == 1


def test_sums_over_members_keep_nothing_of_those_that_left() -> None:
    world = ConsumerWorld()
    world.image = image_of(t=2, u=2)
    world.enter("a", topics=("t", "u"), regex="t.*", assignor="range", instance="i")
    world.finish_work(("consumer", "g", "regex"))
    world.advance(1_000)
    world.beat("a", world.group.progress_of("a").epoch, instance="i")
    epoch = world.group.progress_of("a").epoch
    world.beat("a", epoch, instance="i", topics=("t",), owned={"t": [0, 1]})
    assert world.group.holders == {id_of("t"): {0: 1, 1: 1}}
    world.beat("a", -1, instance="i")
    sums = ("static_members", "name_sets", "topic_users", "regex_users", "assignor_users",
            "classic_protocols", "stable_members", "holders", "rejoining")  # fmt: skip
    assert {name: getattr(world.group, name) for name in sums} == {name: {} for name in sums}


def test_a_member_may_say_less_in_a_group_that_has_more_than_it_may() -> None:
    """A later limit is lower than what the group has."""
    world = ConsumerWorld()
    world.enter("a", topics=("t", *MANY[:10]))
    world.config = GroupConfig(max_bytes=group_bytes("g"))
    world.restart()
    assert world.beat("a", 2, topics=("t",)).error_code == NONE
    epoch = world.group.progress_of("a").epoch
    assert world.beat("a", epoch, topics=MANY).error_code == FULL


def test_what_a_member_has_yet_to_give_up_takes_as_much_as_what_it_has() -> None:
    topic, other = id_of("t"), id_of("u")
    both = Progress(assigned={topic: {0: 2, 1: 2}, other: {0: 2}})
    parted = Progress(assigned={topic: {0: 2, 1: 2}}, pending={other: {0: 2}})
    assert both.size_bytes == parted.size_bytes > Progress(assigned=parted.assigned).size_bytes
