"""Subscriptions by regular expression: when topics are looked for, and what of them is kept."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.machines.group.consumer.regex_refresh import REFRESH_PAUSE_MS, REGEXES_MAX
from fencepost.machines.group.consumer.timers import regex_work
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.group import ConsumerGroupRegularExpressionKey

from .world import ConsumerWorld, image_of, owned_by

WORK = regex_work("g")
REFRESH_MS = 600_000


def enter(world: ConsumerWorld, member: str = "a", regex: str = "t.*", **said: Any) -> Any:
    return world.enter(member, **{"topics": None, "regex": regex, **said})


def resolved_world(regex: str = "t.*") -> ConsumerWorld:
    """Member "a" reads all topics that match, in epoch 3."""
    world = ConsumerWorld()
    world.image = image_of(7, t=2, t2=1, u=1)
    enter(world, regex=regex)
    world.finish_work(WORK)
    world.advance(1_000)
    world.beat("a", 1)
    return world


def patterns(world: ConsumerWorld) -> dict[str, list[str]]:
    """What the log says that expressions match."""
    found: dict[str, list[str]] = {}
    for key, value in world.records():
        if isinstance(key, ConsumerGroupRegularExpressionKey):
            found.pop(key.regular_expression, None)
            if value is not None:
                found[key.regular_expression] = value.topics
    return found


def test_topics_are_found_elsewhere_and_assigned_with_the_next_heartbeat() -> None:
    world = ConsumerWorld()
    world.image = image_of(7, t=2, t2=1, u=1)
    answer = enter(world)
    assert (answer.member_epoch, owned_by(answer)) == (1, {})
    assert world.kinds() == [5, 8]
    start = len(world.log)
    world.finish_work(WORK)
    assert world.kinds(start) == [16, 3]
    ((key, value), _) = world.records(start)
    assert (key.regular_expression, value.topics) == ("t.*", ["t", "t2"])
    assert (value.version, value.timestamp) == (7, world.wall)
    answer = world.beat("a", 1)
    assert (answer.member_epoch, owned_by(answer)) == (2, {"t": [0, 1], "t2": [0]})
    world.restart()
    assert world.group.is_subscribed("t2") and not world.group.is_subscribed("u")


def test_an_expression_matches_whole_names() -> None:
    world = resolved_world("t")
    assert patterns(world) == {"t": ["t"]}


def test_names_and_an_expression_go_together() -> None:
    world = ConsumerWorld()
    world.image = image_of(t=1, u=1, v=1)
    enter(world, regex="u", topics=("t",))
    world.advance(1_000)
    world.finish_work(WORK)
    assert owned_by(world.beat("a", 2)) == {"t": [0], "u": [0]}


def test_topics_that_the_member_may_not_describe_are_left_out() -> None:
    world = ConsumerWorld()
    world.image = image_of(t=1, t2=1)
    world.hidden = {"t2"}
    enter(world)
    world.finish_work(WORK)
    assert patterns(world) == {"t.*": ["t"]}


def test_an_expression_that_is_known_raises_the_epoch_at_once() -> None:
    world = resolved_world()
    world.advance(1_000)
    answer = enter(world, "b")
    assert WORK not in world.works
    assert answer.member_epoch == world.group.epoch
    assert world.group.target["b"]


def test_a_new_one_waits_until_the_last_pass_is_ten_seconds_ago() -> None:
    world = resolved_world()
    start = len(world.log)
    assert world.beat("a", 2, regex="u").assignment is not None, "old topics are taken away"
    assert -16 in world.kinds(start)
    assert 3 not in world.kinds(start), "which topics it means is not known yet"
    assert WORK not in world.works
    world = resolved_world()
    world.enter("b", topics=None, regex="u")
    assert WORK not in world.works
    world.advance(REFRESH_PAUSE_MS)
    world.beat("b", 2)
    assert WORK in world.works
    world.finish_work(WORK)
    assert patterns(world) == {"t.*": ["t", "t2"], "u": ["u"]}


@pytest.mark.parametrize("how", ["leaves", "other", "leaves early"])
def test_a_new_one_does_not_wait_for_what_is_deleted(how: str) -> None:
    """A consumer that unsubscribes and subscribes otherwise gets its topics within seconds."""
    world = ConsumerWorld()
    world.image = image_of(7, t=2, u=1)
    enter(world)
    if how == "leaves early":
        world.beat("a", -1)
    world.finish_work(WORK)
    if how == "leaves":
        world.beat("a", -1)
    if how == "other":
        world.beat("a", 1, regex="u")
        assert WORK not in world.works, "the old one is deleted with this very heartbeat"
        world.beat("a", 3)
    else:
        enter(world, regex="u")
    world.finish_work(WORK)
    assert patterns(world) == {"u": ["u"]}


def test_one_pass_at_a_time() -> None:
    world = ConsumerWorld()
    world.image = image_of(t=1)
    enter(world)
    enter(world, "b", "u")
    work = world.works[WORK]
    for _ in range(3):
        world.advance(REFRESH_PAUSE_MS)
        world.beat("a", 1)
        world.beat("b", 1)
    assert world.works[WORK] is work
    world.finish_work(WORK)
    assert patterns(world) == {"t.*": ["t"], "u": []}


def test_topics_that_are_created_are_found() -> None:
    world = resolved_world()
    world.advance(REFRESH_PAUSE_MS + 1)
    world.beat("a", 2)
    assert WORK not in world.works
    world.change_image(image_of(8, t=2, t2=1, u=1, t3=1))
    world.beat("a", 2)
    world.finish_work(WORK)
    assert patterns(world) == {"t.*": ["t", "t2", "t3"]}
    assert "t3" in owned_by(world.beat("a", 2))
    world.advance(REFRESH_PAUSE_MS + 1)
    world.beat("a", world.group.epoch)
    assert WORK not in world.works, "they are known by now"


def test_a_loaded_coordinator_looks_again_if_there_are_later_metadata() -> None:
    world = resolved_world()
    world.advance(REFRESH_PAUSE_MS + 1)
    world.restart()
    world.beat("a", 2)
    assert WORK not in world.works
    world.image = image_of(9, t=2, t9=1)
    world.restart()
    world.beat("a", 2)
    assert WORK in world.works


def test_they_are_looked_for_again_after_a_while() -> None:
    world = resolved_world()
    for _ in range(REFRESH_MS // 30_000):
        world.advance(30_000)
        world.beat("a", 2)
    assert WORK in world.works
    start = len(world.log)
    world.finish_work(WORK)
    assert world.kinds(start) == [16], "the same topics"


@pytest.mark.parametrize("how", ["none", "other", "leaves", "expires"])
def test_an_expression_without_users_is_deleted(how: str) -> None:
    world = resolved_world()
    world.advance(1_000)
    start = len(world.log)
    if how == "none":
        answer = world.beat("a", 2, regex="", owned={"t": [0, 1], "t2": [0]})
        assert owned_by(answer) == {}
        assert world.group.epoch == 3, "none at all is known at once"
    elif how == "other":
        world.beat("a", 2, regex="u")
    elif how == "leaves":
        world.beat("a", -1)
    else:
        world.advance(45_000)
    assert world.kinds(start).count(-16) == 1
    assert not world.group.regexes


def test_an_expression_that_others_use_stays() -> None:
    world = resolved_world()
    enter(world, "b")
    enter(world, "c")
    world.beat("c", -1)
    assert patterns(world) == {"t.*": ["t", "t2"]}
    world.beat("a", 2, regex="")
    assert patterns(world) == {"t.*": ["t", "t2"]}
    world.beat("b", -1)
    assert patterns(world) == {}


def test_results_for_members_that_have_left_are_dropped() -> None:
    world = ConsumerWorld()
    world.image = image_of(t=1)
    enter(world)
    enter(world, "b", "u")
    world.beat("b", -1)
    world.finish_work(WORK)
    assert patterns(world) == {"t.*": ["t"]}


def test_a_pass_that_fails_changes_nothing() -> None:
    world = ConsumerWorld()
    world.image = image_of(t=1)
    enter(world)
    start = len(world.log)
    world.finish_work(WORK, error=ValueError("oh"))
    assert len(world.log) == start and any("oh" in note for note in world.notes)
    world.beat("a", 1)
    assert WORK not in world.works, "not at once"
    world.advance(REFRESH_PAUSE_MS + 1)
    world.beat("a", 1)
    world.finish_work(WORK)
    assert patterns(world) == {"t.*": ["t"]}


def test_more_topics_than_a_record_can_have_are_not_written_and_not_tried_for_ever() -> None:
    world = ConsumerWorld()
    many = {f"t{number:05}" + "x" * 200: 1 for number in range(300)}
    world.image = image_of(**many)
    world.coordinator.max_batch_bytes = 100_000
    enter(world)
    world.finish_work(WORK)
    assert patterns(world) == {}
    assert any("300 topics" in note for note in world.notes)
    world.beat("a", 1)
    assert WORK not in world.works


def test_the_number_of_expressions_is_bounded() -> None:
    world = ConsumerWorld()
    for number in range(REGEXES_MAX):
        assert enter(world, f"m{number}", f"r{number}").error_code == ErrorCode.NONE
    answer = enter(world, "more", "one-more")
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert enter(world, "known", "r0").error_code == ErrorCode.NONE
    world.beat("m1", -1)
    assert enter(world, "more", "one-more").error_code == ErrorCode.NONE
