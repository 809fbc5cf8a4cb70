"""Sessions and rebalances of members, and what a coordinator does once it is loaded."""

from __future__ import annotations

import pytest

from fencepost.machines.group.caller import Caller
from fencepost.machines.group.consumer.group import ConsumerGroupState
from fencepost.machines.group.consumer.timers import rebalance_timer, session_timer
from fencepost.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from fencepost.wire.errors import ErrorCode

from .world import ConsumerWorld, id_of, image_of, owned_by

NONE = ErrorCode.NONE
SESSION_MS = 45_000
REBALANCE_MS = 60_000


def told_to_give_up() -> ConsumerWorld:
    """Member "a" is to give up two partitions, for which "b" waits."""
    world = ConsumerWorld()
    world.enter("a")
    world.enter("b")
    world.advance(1_000)
    world.beat("b", 2)
    assert owned_by(world.beat("a", 2)) == {"t": [0, 1]}
    return world


def keep(world: ConsumerWorld, for_ms: int, **epochs: int) -> None:
    """Time passes, and these members send heartbeats."""
    for _ in range(for_ms // 1_000):
        world.advance(1_000)
        for member, epoch in epochs.items():
            world.beat(member, epoch)


def test_a_session_is_as_long_as_the_next_heartbeat_is_away() -> None:
    world = ConsumerWorld()
    world.enter("a")
    for _ in range(3):
        world.advance(SESSION_MS - 1)
        assert world.beat("a", 2).error_code == NONE
    start = len(world.log)
    world.advance(SESSION_MS)
    assert world.kinds(start) == [-8, -7, -5, 3, 6]
    assert world.refusal("a", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert not world.timers


def test_what_a_lost_member_had_goes_to_others() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.enter("b")
    keep(world, SESSION_MS, b=2)
    assert owned_by(world.beat("b", 2, topics=("t",), rebalance_ms=9, owned={})) is not None
    keep(world, 1_000, b=3)
    assert world.group.member_count == 1
    epoch = world.group.progress_of("b").epoch
    assert owned_by(world.beat("b", epoch, topics=("t",), rebalance_ms=9, owned={})) == {
        "t": [0, 1, 2, 3]
    }


def test_the_last_member_leaves_equal_epochs_and_the_next_is_assigned_at_once() -> None:
    """KAFKA-20442."""
    world = ConsumerWorld()
    world.enter("a")
    world.beat("a", -1)
    assert (world.group.epoch, world.group.target_epoch) == (3, 3)
    assert world.group.state is ConsumerGroupState.EMPTY
    answer = world.enter("b")
    assert (answer.member_epoch, owned_by(answer)) == (4, {"t": [0, 1, 2, 3]})


def test_who_does_not_give_up_in_time_is_removed() -> None:
    world = told_to_give_up()
    keep(world, REBALANCE_MS - 1_000, a=2, b=3)
    assert world.group.member_count == 2
    keep(world, 1_000, b=3)
    assert list(world.group.members) == ["b"]
    assert any("given up" in note for note in world.notes)
    keep(world, 1_000, b=3)
    world.beat("b", 3)
    assert world.group.progress_of("b").epoch == world.group.epoch
    assert world.group.state is ConsumerGroupState.STABLE


def test_who_gives_up_in_time_stays() -> None:
    world = told_to_give_up()
    timer = rebalance_timer("g", "a")
    assert timer in world.timers
    world.beat("a", 2, owned={"t": [0, 1]})
    assert timer not in world.timers
    keep(world, REBALANCE_MS + 1_000, a=3, b=3)
    assert world.group.member_count == 2


def test_a_topic_may_be_in_two_rows_of_what_a_member_owns() -> None:
    world = told_to_give_up()
    for rows, epoch in (([[2, 3], [0, 1]], 2), ([[1], [0]], 3)):
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="a",
            member_epoch=2,
            topic_partitions=[TopicPartitions(topic_id=id_of("t"), partitions=one) for one in rows],
        )
        token = world.ask(
            lambda token, request=request: world.consumer.heartbeat(  # type: ignore[misc]
                request, Caller(token, 1), world.may_describe, world.wall
            )
        )
        assert world.replies[token].member_epoch == epoch


def test_a_late_timer_finds_that_the_partitions_are_given_up() -> None:
    world = told_to_give_up()
    world.beat("a", 2, owned={"t": [0, 1]})
    timer = rebalance_timer("g", "a")
    world.carry_out(lambda: world.coordinator.decide_timer(timer, world.wall))
    assert world.group.member_count == 2
    for name in (rebalance_timer("gone", "a"), session_timer("g", "gone")):
        end = len(world.log)
        world.carry_out(lambda name=name: world.coordinator.decide_timer(name, world.wall))
        assert len(world.log) == end


def test_a_loaded_group_watches_its_members() -> None:
    world = told_to_give_up()
    world.restart()
    assert world.timers.keys() == {
        ("expiry",),
        session_timer("g", "a"),
        session_timer("g", "b"),
        rebalance_timer("g", "a"),
    }
    keep(world, REBALANCE_MS, a=2, b=3)
    assert list(world.group.members) == ["b"]
    world.restart()
    world.advance(SESSION_MS)
    assert world.group.state is ConsumerGroupState.EMPTY


def test_a_loaded_group_goes_on_where_it_was() -> None:
    world = told_to_give_up()
    world.restart()
    assert owned_by(world.beat("a", 2)) is None
    assert world.beat("a", 2, owned={"t": [0, 1]}).member_epoch == 3
    world.restart()
    assert owned_by(world.beat("b", 3)) == {"t": [2, 3]}


def test_a_removal_that_the_log_refuses_is_tried_again() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    world.advance(SESSION_MS)
    assert world.group.member_count == 1
    world.refusing = None
    world.advance(1_000)
    assert world.group.member_count == 0


# -- the cluster changes ---------------------------------------------------------------------------


def test_topics_that_grow_are_assigned_with_the_next_heartbeat() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.advance(1_000)
    world.change_image(image_of(t=5))
    assert world.group.epoch == 2, "no heartbeat yet"
    answer = world.beat("a", 2)
    assert (answer.member_epoch, owned_by(answer)) == (3, {"t": [0, 1, 2, 3, 4]})


def test_deleted_topics_are_taken_away() -> None:
    world = ConsumerWorld()
    world.image = image_of(t=4, u=2)
    world.enter("a", topics=("t", "u"))
    world.advance(1_000)
    world.change_image(image_of(t=4))
    assert owned_by(world.beat("a", 2)) == {"t": [0, 1, 2, 3]}
    world.change_image(image_of(t=4, u=2))
    world.advance(1_000)
    answer = world.beat("a", 2, owned={"t": [0, 1, 2, 3]})
    assert owned_by(answer) == {"t": [0, 1, 2, 3], "u": [0, 1]}


def test_topics_that_no_member_reads_change_nothing() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.beat("a", 2)
    world.change_image(image_of(t=4, u=2))
    assert not world.group.is_check_due


def test_replicas_that_move_are_looked_at_and_a_new_leader_is_not() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.beat("a", 2)
    world.change_image(image_of(t=4, replicas=(2,)))
    assert world.group.is_check_due
    assert world.written(lambda: world.beat("a", 2)) == [], "no rack is known of either"
    assert not world.group.is_check_due


def test_what_changed_before_the_load_is_seen_behind_it() -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.advance(1_000)
    world.image = image_of(t=6)
    world.restart()
    assert owned_by(world.beat("a", 2)) == {"t": [0, 1, 2, 3, 4, 5]}


@pytest.mark.parametrize("clock_moves_ms", [-86_400_000, 0, 86_400_000])
def test_a_wall_clock_that_is_set_holds_up_nothing(clock_moves_ms: int) -> None:
    world = ConsumerWorld()
    world.enter("a")
    world.wall_ahead += clock_moves_ms
    world.enter("b")
    world.advance(1_000)
    assert world.beat("b", world.group.progress_of("b").epoch).member_epoch == 3
