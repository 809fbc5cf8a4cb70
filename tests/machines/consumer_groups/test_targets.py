"""Target assignments: by which assignor, when, within a heartbeat or elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.group.assignment_interval import may_assign
from fencepost.machines.group.consumer.group import ConsumerGroupState
from fencepost.machines.group.consumer.target import INLINE_COST_MAX
from fencepost.machines.group.consumer.timers import assign_work
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.group import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)

from ..group_world import GroupWorld
from .world import ConsumerWorld, image_of, owned_by

WORK = assign_work("g")
LARGE = INLINE_COST_MAX


@pytest.mark.parametrize(
    ("timestamp_ms", "interval_ms", "now_ms", "may"),
    [
        (0, 1_000, 1, True),
        (5_000, 0, 5_000, True),
        (5_000, 1_000, 5_000, False),
        (5_000, 1_000, 5_999, False),
        (5_000, 1_000, 6_000, True),
        (5_000, 1_000, 4_999, True),
    ],
)
def test_when_a_target_may_be_computed(
    timestamp_ms: int, interval_ms: int, now_ms: int, may: bool
) -> None:
    assert may_assign(timestamp_ms, interval_ms, now_ms) is may


@pytest.mark.parametrize(
    ("preferences", "assignor"),
    [
        ([None], "uniform"),
        (["range"], "range"),
        (["range", "uniform"], "range"),
        (["range", "uniform", "uniform"], "uniform"),
        ([None, None, "range"], "range"),
    ],
)
def test_members_choose_the_assignor(preferences: list[str | None], assignor: str) -> None:
    world = ConsumerWorld()
    for number, preference in enumerate(preferences):
        world.enter(f"m{number}", assignor=preference)
    (described,) = world.describe_consumer("g")
    assert described.assignor_name == assignor


def test_the_brokers_first_assignor_is_the_default() -> None:
    world = ConsumerWorld(consumer_assignors=("range",))  # type: ignore[arg-type]
    world.image = image_of(t=3, u=3)
    world.enter("a", topics=("t", "u"))
    world.enter("b", topics=("t", "u"))
    world.advance(1_000)
    world.beat("b", 2)
    target = {name: sorted(map(sorted, some.values())) for name, some in world.group.target.items()}
    assert target == {"a": [[0, 1], [0, 1]], "b": [[2], [2]]}
    assert world.refusal("a", 2, assignor="uniform") is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_an_assignor_that_another_member_still_prefers_changes_nothing() -> None:
    world = ConsumerWorld()
    world.enter("a", assignor="range")
    world.enter("b", assignor="range")
    world.advance(1_000)
    world.beat("b", 2)
    world.beat("b", 3)
    assert world.written(lambda: world.beat("b", 3, assignor="uniform")) == [5]
    assert world.written(lambda: world.beat("a", 2, assignor="uniform")) == [5, 3, 8]


# -- elsewhere -------------------------------------------------------------------------------------


def large_world(**said: Any) -> ConsumerWorld:
    """A member of a topic with so many partitions that its target is computed elsewhere."""
    world = ConsumerWorld(**said)
    world.image = image_of(t=LARGE)
    return world


def test_a_large_target_is_computed_elsewhere() -> None:
    world = large_world()
    answer = world.enter("a")
    assert (answer.member_epoch, owned_by(answer)) == (1, {})
    assert world.kinds() == [5, 3, 8]
    assert world.group.state is ConsumerGroupState.ASSIGNING
    start = len(world.log)
    world.finish_work(WORK)
    assert world.kinds(start) == [7, 6]
    answer = world.beat("a", 1)
    assert answer.member_epoch == 2
    assert owned_by(answer) == {"t": list(range(LARGE))}
    assert not world.works


def test_one_at_a_time_is_computed() -> None:
    world = large_world()
    world.enter("a")
    world.enter("b")
    work = world.works[WORK]
    for _ in range(3):
        world.advance(1_000)
        world.beat("b", 1)
    assert world.works[WORK] is work
    world.finish_work(WORK)
    assert (world.group.target_epoch, world.group.epoch) == (3, 3), "by the latest that began"


def test_a_target_of_before_counts_until_there_is_a_later_one() -> None:
    world = large_world()
    world.enter("a")
    world.beat("a", 1)
    world.beat("a", 1)
    world.enter("b")
    world.finish_work(WORK)
    world.advance(1_000)
    world.enter("c")
    world.enter("d")
    world.beat("b", -1)
    assert WORK in world.works
    world.finish_work(WORK)
    group = world.group
    assert group.epoch > group.target_epoch > 2
    assert "b" not in group.target, "it has left meanwhile"
    world.restart()
    assert "b" not in world.group.target
    world.advance(1_000)
    world.beat("a", group.progress_of("a").epoch)
    world.finish_work(WORK)
    assert world.group.target.keys() == {"a", "c", "d"}
    assert world.group.target_epoch == world.group.epoch


def test_what_is_computed_for_a_static_member_goes_to_the_one_that_replaces_it() -> None:
    """KAFKA-20292: it may be replaced while its target is computed."""
    world = large_world()
    world.enter("a", instance="i")
    world.beat("a", -2, instance="i")
    assert WORK in world.works
    assert world.enter("b", instance="i").member_epoch == 1
    world.finish_work(WORK)
    assert world.group.target.keys() == {"b"}, "a is gone"
    assert world.group.target_epoch == world.group.epoch
    answer = world.beat("b", 1, owned={}, instance="i")
    assert owned_by(answer) == {"t": list(range(LARGE))}
    world.restart()
    assert world.group.target.keys() == {"b"}


def test_the_result_for_a_group_that_has_emptied_is_ignored() -> None:
    world = large_world()
    world.enter("a")
    world.beat("a", -1)
    start = len(world.log)
    world.finish_work(WORK)
    assert len(world.log) == start
    assert owned_by(world.enter("b")) == {}
    world.finish_work(WORK)
    assert owned_by(world.beat("b", 3)) is not None


def test_a_deleted_group_has_no_work() -> None:
    world = large_world()
    world.enter("a")
    world.beat("a", -1)
    token = world.ask(lambda token: world.coordinator.decide_delete_groups(["g"], token))
    assert world.replies[token][0].error_code == ErrorCode.NONE
    assert not world.works
    assert "g" not in world.coordinator.groups


def test_an_assignor_that_fails_elsewhere_is_tried_again() -> None:
    world = large_world()
    world.enter("a")
    world.beat("a", 1)
    world.finish_work(WORK, error=ValueError("oh"))
    assert any("oh" in note for note in world.notes)
    world.beat("a", 1)
    world.finish_work(WORK)
    assert owned_by(world.beat("a", 1)) is not None


def test_a_result_that_the_log_refuses_is_there_later() -> None:
    world = large_world()
    world.enter("a")
    world.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    world.finish_work(WORK)
    assert world.group.target_epoch == 1
    world.refusing = None
    world.finish_work(WORK)
    assert world.group.target_epoch == 2


def test_the_epoch_of_a_target_is_its_last_record() -> None:
    world = large_world()
    world.enter("a")
    world.enter("b")
    start = len(world.log)
    world.finish_work(WORK)
    kinds = [type(key) for key, _ in world.records(start)]
    assert kinds[-1] is ConsumerGroupTargetAssignmentMetadataKey
    assert set(kinds[:-1]) == {ConsumerGroupTargetAssignmentMemberKey}


def test_work_that_is_lost_with_the_coordinator_begins_again() -> None:
    world = large_world()
    world.enter("a")
    world.restart()
    assert not world.works
    world.beat("a", 1)
    assert WORK in world.works
    assert isinstance(world, GroupWorld)
