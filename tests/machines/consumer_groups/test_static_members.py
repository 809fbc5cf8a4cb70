"""Static members of consumer groups: leaving for a while, coming back, and who is fenced."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.group.consumer.group import ConsumerGroupState
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
)

from .world import ConsumerWorld, image_of, owned_by

NONE = ErrorCode.NONE
SESSION_MS = 45_000


def resting() -> ConsumerWorld:
    """Member "s" of instance "i" had all four partitions, and has left for a while."""
    world = ConsumerWorld()
    world.enter("s", instance="i", rack="r", assignor="range")
    world.advance(1_000)
    assert world.beat("s", -2, instance="i").member_epoch == -2
    return world


def test_it_leaves_for_a_while_with_one_record_and_keeps_its_partitions() -> None:
    world = ConsumerWorld()
    world.enter("s", instance="i")
    assert world.written(lambda: world.beat("s", -2, instance="i")) == [8]
    (key, value) = world.records()[-1]
    assert isinstance(key, ConsumerGroupCurrentMemberAssignmentKey)
    assert (value.member_epoch, value.partitions_pending_revocation) == (-2, [])
    (topic,) = value.assigned_partitions
    assert topic.assignment_epochs == [0, 0, 0, 0]
    assert world.group.is_held(topic.topic_id, 3)
    answer = world.enter("b")
    world.advance(1_000)
    answer = world.beat("b", answer.member_epoch)
    assert owned_by(answer) is None, "what it left is not given to others"
    assert world.group.state is ConsumerGroupState.RECONCILING


@pytest.mark.parametrize("new_id", ["s2", "s"])
def test_it_comes_back_to_what_it_had(new_id: str) -> None:
    world = resting()
    start = len(world.log)
    answer = world.enter(new_id, instance="i")
    assert (answer.member_id, answer.member_epoch) == (new_id, 2)
    assert owned_by(answer) == {"t": [0, 1, 2, 3]}
    assert world.kinds(start) == [-8, -7, -5, 5, 7, 8, 8]
    copied = [v for k, v in world.records(start) if isinstance(k, ConsumerGroupMemberMetadataKey)]
    assert (copied[-1].rack_id, copied[-1].server_assignor) == ("r", "range")
    assert list(world.group.members) == [new_id]
    assert world.group.static_members == {"i": new_id}
    assert world.group.epoch == 2, "the target stays"
    assert world.group.state is ConsumerGroupState.STABLE
    world.restart()
    assert world.beat(new_id, 2, instance="i").error_code == NONE


def test_it_comes_back_with_another_subscription_or_assignor() -> None:
    """KAFKA-20434: the assignor of a static member that comes back counts as changed, too."""
    world = resting()
    world.image = image_of(t=4, u=2)
    answer = world.enter("s2", instance="i", assignor="uniform", topics=("t", "u"))
    assert (answer.member_epoch, owned_by(answer)) == (3, {"t": [0, 1, 2, 3], "u": [0, 1]})
    world = resting()
    assert world.enter("s2", instance="i", assignor="uniform").member_epoch == 3


def test_the_old_id_is_fenced_when_another_has_come() -> None:
    world = resting()
    world.enter("s2", instance="i")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    for epoch in (2, -1, -2):
        assert world.refusal("s", epoch, instance="i") is fenced
    assert world.refusal("s", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_is_there_keeps_its_instance_id() -> None:
    world = ConsumerWorld()
    world.enter("s", instance="i")
    assert world.enter("s2", instance="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert world.beat("s", 2, instance="i").error_code == NONE


def test_a_session_goes_on_while_it_rests() -> None:
    world = ConsumerWorld()
    world.enter("s", instance="i")
    world.advance(SESSION_MS - 1)
    world.beat("s", -2, instance="i")
    world.advance(1)
    assert world.group.state is ConsumerGroupState.EMPTY
    assert world.group.static_members == {}
    assert world.enter("s2", instance="i").member_epoch == 4


def test_the_session_of_its_old_id_ends_without_harm() -> None:
    world = resting()
    world.enter("s2", instance="i")
    for _ in range(3):
        world.advance(SESSION_MS - 1)
        assert world.beat("s2", 2, instance="i").error_code == NONE


def test_it_leaves_for_good() -> None:
    world = ConsumerWorld()
    world.enter("s", instance="i")
    start = len(world.log)
    assert world.beat("s", -1, instance="i").member_epoch == -1
    assert world.kinds(start) == [-8, -7, -5, 3, 6]
    assert world.enter("s2", instance="i").error_code == NONE


def test_a_member_without_instance_cannot_rest() -> None:
    """The handler refuses that; should it come here, the member has left."""
    world = ConsumerWorld()
    world.enter("a")
    world.beat("a", -2)
    assert world.group.member_count == 0


def test_what_a_resting_member_had_to_give_up_is_free() -> None:
    world = ConsumerWorld()
    world.enter("s", instance="i")
    world.enter("b")
    world.advance(1_000)
    world.beat("b", 2)
    told = world.beat("s", 2, instance="i")
    assert owned_by(told) == {"t": [0, 1]}
    world.beat("s", -2, instance="i")
    assert owned_by(world.beat("b", 3)) == {"t": [2, 3]}
    answer = world.enter("s2", instance="i")
    assert (answer.member_epoch, owned_by(answer)) == (3, {"t": [0, 1]})


def test_a_dynamic_member_may_take_an_instance_id() -> None:
    """KAFKA-20747: a member whose instance id changes has the new one alone."""
    world = ConsumerWorld()
    world.enter("a")
    answer: Any = world.beat("a", 0, topics=("t",), rebalance_ms=1, owned={}, instance="i")
    assert answer.error_code == NONE
    assert world.group.static_members == {"i": "a"}
    world.restart()
    assert world.group.static_members == {"i": "a"}
    assert world.beat("a", 2, instance="i").error_code == NONE
