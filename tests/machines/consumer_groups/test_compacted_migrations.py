"""Groups that have migrated are loaded from logs that compaction has been over, up to anywhere.

Where the tombstone of a classic group is gone, its offsets stand in front of what the other group
is made of (KAFKA-20254), and where it is not, it stands behind nothing (KAFKA-17306).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fencepost.machines.group.classic.group import ClassicGroup
from fencepost.machines.group.consumer.group import ConsumerGroup

from ..group_world import Entry, replay
from ..streams_groups.world import StreamsWorld
from .test_migration import classic_group, settle
from .world import ConsumerWorld


def upgraded() -> ConsumerWorld:
    """A classic group with an offset, which a member of the consumer protocol has joined."""
    world = ConsumerWorld()
    a, _ = classic_group(world)
    world.offset_commit(7, member_id=a.member_id, generation=1)
    world.enter("x")
    assert isinstance(world.group, ConsumerGroup)
    return world


def downgraded() -> ConsumerWorld:
    """The same, after that member has left."""
    world = ConsumerWorld()
    a, b = classic_group(world)
    world.offset_commit(7, member_id=a.member_id, generation=1)
    world.enter("x")
    settle(world, [a, b])
    world.beat("x", -1)
    settle(world, [a, b])
    assert isinstance(world.coordinator.groups["g"], ClassicGroup)
    return world


def of_streams() -> StreamsWorld:
    """A streams group, which was a classic one with an offset."""
    world = StreamsWorld()
    (member,) = world.form(1)
    world.offset_commit(7, member_id=member, generation=1)
    world.leave(member)
    world.beat()
    assert world.coordinator.groups["g"].group_type == "streams"
    return world


def compacted(log: list[Entry], end: int, *, keeps_tombstones: bool) -> list[Entry]:
    """The log after compaction of what stands below `end`."""
    last = {key: index for index, (key, _) in enumerate(log[:end])}
    head = [one for index, one in enumerate(log[:end]) if last[one[0]] == index]
    return [one for one in head if keeps_tombstones or one[1] is not None] + log[end:]


@pytest.mark.parametrize("keeps_tombstones", [True, False])
@pytest.mark.parametrize("migrate", [upgraded, downgraded, of_streams])
def test_a_group_that_has_migrated_is_loaded(
    migrate: Callable[[], ConsumerWorld | StreamsWorld], keeps_tombstones: bool
) -> None:
    world = migrate()
    image = world.image
    view, log = world.coordinator.durable_view(), list(world.log)
    for end in range(len(log) + 1):
        kept = compacted(log, end, keeps_tombstones=keeps_tombstones)
        loaded = replay(kept, world.config, image=lambda: image)
        assert loaded.durable_view() == view, f"compacted below {end}"
        assert loaded.groups.keys() == {"g"}
