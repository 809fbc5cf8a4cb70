"""From static voters to dynamic ones: kraft.version is raised.

`quorum_stages` says who is who.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.quorum import inputs
from fencepost.machines.quorum.roles import Leader
from fencepost.machines.quorum.voters import ReplicaKey
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

from .quorum_stages import dynamic, led


def test_static_voters_become_dynamic_ones() -> None:
    world = dynamic(3, static=True)
    world.start()
    world.fire(1, inputs.ELECTION)
    world.settle()
    world.upgrade(1)
    assert world.changes == {"upgrade 1": ErrorCode.INVALID_UPDATE_VERSION}, (
        "the leader does not know the voters' directory ids yet"
    )
    world.wait(3_000)
    world.upgrade(1)
    world.settle()
    assert world.changes == {"upgrade 1": ErrorCode.NONE}
    assert [world.machine(id_).kraft_version for id_ in world.ids] == [1, 1, 1]
    assert world.machine(3).voter_set.voters == tuple(world.voter(id_) for id_ in (1, 2, 3))
    world.remove_voter(1, world.voter(3).key)
    world.settle()
    assert world.changes["remove 3"] is ErrorCode.NONE


@pytest.mark.parametrize(
    ("level", "error"),
    [
        (0, ErrorCode.INVALID_UPDATE_VERSION),
        (1, ErrorCode.NONE),
        (2, ErrorCode.INVALID_UPDATE_VERSION),
    ],
)
def test_kraft_version_neither_falls_nor_leaves_anybody_behind(
    level: int, error: ErrorCode
) -> None:
    world = led()
    end_offset = world.machine(1).end_offset
    world.upgrade(1, level)
    assert world.changes == {f"upgrade {level}": error}
    assert world.machine(1).end_offset == end_offset


def test_a_voter_that_cannot_run_the_level_holds_up_the_upgrade() -> None:
    world = dynamic(3, static=True)
    world.odd.kraft_versions[3] = (0, 0)
    world.start()
    world.fire(1, inputs.ELECTION)
    world.settle()
    world.wait(3_000)
    world.upgrade(1)
    assert world.changes == {"upgrade 1": ErrorCode.INVALID_UPDATE_VERSION}


def test_an_upgrade_that_is_only_tried_writes_nothing() -> None:
    world = led(static=True, others=0)
    world.wait(3_000)
    outcomes: list[Any] = []
    end_offset = world.machine(1).end_offset
    for level in (1, 2):
        asked = inputs.UpgradeKRaftVersion(outcomes.append, level, 1, is_dry_run=True)
        world.feed(1, asked)
    assert [outcome.error for outcome in outcomes] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_UPDATE_VERSION,
    ]
    assert world.machine(1).end_offset == end_offset and world.machine(1).kraft_version == 0


def test_the_disks_that_static_voters_have_are_those_that_count_after_the_upgrade() -> None:
    """What a disk had fetched that is gone by now is not taken over with its node's id."""
    world = led(static=True, others=0)
    world.wait(3_000)
    world.drop_all()
    world.cut((1, 3), (3, 1))
    leader = world.machine(1).node.role_state
    assert isinstance(leader, Leader)
    progress = leader.tracker.voters[3]
    progress.key = ReplicaKey(3, Uuid(bytes(15) + b"\x63"))
    world.upgrade(1)
    assert leader.tracker.voters[3].end_offset == -1
    assert leader.tracker.voters[2].end_offset > 0
