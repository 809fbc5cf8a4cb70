"""A group whose stored epoch is the largest there is: its members are still answered."""

from __future__ import annotations

import pytest

from fencepost.machines.group.codec import GroupCodec
from fencepost.machines.group.consumer.records import epoch_record as consumer_epoch
from fencepost.machines.group.next_epoch import next_epoch
from fencepost.machines.group.records import GroupRecord
from fencepost.machines.group.share.records import epoch_record as share_epoch
from fencepost.machines.group.streams.records import group_record

from .consumer_groups.world import ConsumerWorld
from .group_world import GroupWorld
from .share_group_world import ShareWorld
from .streams_groups.world import StreamsWorld

LARGEST, SMALLEST = 2**31 - 1, -(2**31)


def load_with(world: GroupWorld, record: GroupRecord) -> None:
    """The group's record was written by something else, and another coordinator reads it."""
    world.log.append(GroupCodec.encode(record))
    world.committed = len(world.log)
    world.restart()


def test_what_follows_the_largest_is_the_smallest() -> None:
    assert next_epoch(LARGEST) == SMALLEST
    assert [next_epoch(one) for one in (SMALLEST, -1, 0, LARGEST - 1)] == [
        SMALLEST + 1,
        0,
        1,
        LARGEST,
    ]


@pytest.mark.parametrize("joins", [True, False])
def test_members_of_a_consumer_group_are_answered(joins: bool) -> None:
    world = ConsumerWorld()
    epoch = world.enter("a").member_epoch
    load_with(world, consumer_epoch("g", LARGEST, 0))
    if joins:
        assert world.enter("b").error_code == 0
    else:
        assert world.beat("a", epoch, topics=("t", "u")).error_code == 0
    assert world.group.epoch == SMALLEST
    assert world.beat("a", -1).error_code == 0
    assert world.group.epoch == SMALLEST + 1


def test_members_of_a_share_group_are_answered() -> None:
    world = ShareWorld()
    epoch = world.joined("m")
    load_with(world, share_epoch("g", LARGEST, 0))
    assert world.beat("n", 0, "t").error_code == 0
    assert world.beat("m", epoch).error_code == 0
    assert world.beat("m", -1).error_code == 0
    assert world.beat("n", -1).error_code == 0


def test_members_of_a_streams_group_are_answered() -> None:
    world = StreamsWorld()
    epoch = world.beat().member_epoch
    group = world.group
    load_with(
        world,
        group_record(
            "g",
            LARGEST,
            group.metadata_hash,
            group.validated_topology_epoch,
            group.assignment_configs,
            group.descriptions,
        ),
    )
    assert world.beat("b").error_code == 0
    assert world.group.epoch == SMALLEST
    assert world.beat("a", epoch).error_code == 0
    assert world.beat("a", -1).error_code == 0
    assert world.group.epoch == SMALLEST + 1
