"""Consumer groups: topics that members name by a regular expression of the server's."""

from __future__ import annotations

import pytest

from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.errors import ErrorCode as E

from .conftest import Performance
from .consumer_words import assigned, beat, beat_until_assigned, describe, join, wait_until
from .offset_words import commit, delete_offsets
from .stage import Scenes, Stage

pytestmark = [pytest.mark.interop, pytest.mark.slow]

scene = Scenes()
RANGE = {"server_assignor": "range"}


def is_stable(described: object) -> bool:
    return getattr(described, "group_state", "") == "Stable"


@scene
def topics_that_match(stage: Stage) -> None:
    """A full match; the partitions come with a later heartbeat."""
    topic, group = stage.topic("t1", 2), stage.name("g")
    stage.topic("u1", 1)
    first = join(stage, group, "a", regex=f"{stage.name('t')}.", **RANGE)
    answer = beat_until_assigned(stage, group, "a", first.member_epoch)
    stage.require("assigned", assigned(stage, answer), {topic: [0, 1]})
    described = describe(stage, group)
    stage.note("epochs", (described.group_epoch, described.assignment_epoch))


@scene
def prefix_is_no_match(stage: Stage) -> None:
    topic, group = stage.topic("t1", 1), stage.name("g")
    first = join(stage, group, "a", topic, regex=f"^{stage.name('t')}", **RANGE)
    stage.note("assigned", assigned(stage, first))
    beat(stage, group, "a", first.member_epoch)
    describe(stage, group)


@scene
def second_member_with_the_same_regex(stage: Stage) -> None:
    """It is resolved already."""
    topic, group = stage.topic("t1", 2), stage.name("g")
    regex = f"{stage.name('t')}[0-9]"
    first = join(stage, group, "a", regex=regex, **RANGE)
    answer = beat_until_assigned(stage, group, "a", first.member_epoch)
    second = join(stage, group, "b", regex=regex, **RANGE)
    stage.note("second", (second.member_epoch, assigned(stage, second)))
    beat(stage, group, "a", answer.member_epoch, owned={topic: [0]})
    beat(stage, group, "b", second.member_epoch)
    describe(stage, group)


@scene
def names_and_a_regex(stage: Stage) -> None:
    topic, other, group = stage.topic("t1", 1), stage.topic("u1", 1), stage.name("g")
    first = join(stage, group, "a", other, regex=f"{stage.name('t')}.", **RANGE)
    stage.note("at once", assigned(stage, first))
    answer = beat_until_assigned(stage, group, "a", first.member_epoch)
    stage.require("assigned", assigned(stage, answer), {topic: [0], other: [0]})
    beat(stage, group, "a", answer.member_epoch, subscribed_topic_names=[])
    describe(stage, group)


@scene
def regex_is_dropped(stage: Stage) -> None:
    topic, other, group = stage.topic("t1", 1), stage.topic("u1", 1), stage.name("g")
    first = join(stage, group, "a", other, regex=f"{stage.name('t')}.", **RANGE)
    answer = beat_until_assigned(stage, group, "a", first.member_epoch)
    epoch = answer.member_epoch
    dropped = beat(stage, group, "a", epoch, subscribed_topic_regex="")
    stage.note("left", assigned(stage, dropped))
    describe(stage, group)
    beat(stage, group, "a", dropped.member_epoch, owned={other: [0]})
    describe(stage, group)
    stage.note("topic", topic)


@scene
def regex_that_does_not_compile(stage: Stage) -> None:
    topic, group = stage.topic("t1", 1), stage.name("g")
    join(stage, group, "a", topic, **RANGE)
    for regex in ("(", "(?=x)"):
        beat(stage, group, "a", 2, subscribed_topic_regex=regex, error=E.INVALID_REGULAR_EXPRESSION)
    described = describe(stage, group)
    stage.require("epoch", described.group_epoch, 2)


@scene
def topic_that_comes_later(stage: Stage) -> None:
    topic, group = stage.topic("t1", 1), stage.name("g")
    first = join(stage, group, "a", regex=f"{stage.name('t')}.", **RANGE)
    answer = beat_until_assigned(stage, group, "a", first.member_epoch)
    later = stage.topic("t2", 1)
    answer = beat_until_assigned(stage, group, "a", answer.member_epoch)
    stage.require("assigned", assigned(stage, answer), {topic: [0], later: [0]})


@scene
def topic_that_is_deleted(stage: Stage) -> None:
    topic, gone, group = stage.topic("t1", 1), stage.topic("t2", 1), stage.name("g")
    first = join(stage, group, "a", regex=f"{stage.name('t')}.", **RANGE)
    answer = beat_until_assigned(stage, group, "a", first.member_epoch)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=gone)], timeout_ms=30_000)
    stage.ask(request, 6)
    answer = beat_until_assigned(stage, group, "a", answer.member_epoch)
    stage.require("assigned", assigned(stage, answer), {topic: [0]})


@scene
def offsets_of_topics_that_match(stage: Stage) -> None:
    topic, other, group = stage.topic("t1", 1), stage.topic("u1", 1), stage.name("g")
    first = join(stage, group, "a", regex=f"{stage.name('t')}.", **RANGE)
    answer = beat_until_assigned(stage, group, "a", first.member_epoch)
    commit(stage, group, topic, member="a", epoch=answer.member_epoch)
    commit(stage, group, other, member="a", epoch=answer.member_epoch)
    delete_offsets(stage, group, topic, error=E.GROUP_SUBSCRIBED_TO_TOPIC)
    delete_offsets(stage, group, other)


@scene
def static_member_returns_with_its_regex(stage: Stage) -> None:
    stage.topic("t1", 1)
    group, regex = stage.name("g"), f"{stage.name('t')}."
    first = join(stage, group, "a", regex=regex, instance_id="i", **RANGE)
    beat_until_assigned(stage, group, "a", first.member_epoch)
    beat(stage, group, "a", -2, instance_id="i")
    join(stage, group, "b", regex=regex, instance_id="i", **RANGE)
    describe(stage, group)


@scene
def last_member_with_a_regex_leaves(stage: Stage) -> None:
    """KAFKA-19891: the regex of an emptied group is resolved again for the next member."""
    topic, group = stage.topic("t1", 1), stage.name("g")
    regex = f"{stage.name('t')}."
    first = join(stage, group, "a", regex=regex, **RANGE)
    beat_until_assigned(stage, group, "a", first.member_epoch)
    beat(stage, group, "a", -1)
    describe(stage, group)
    first = join(stage, group, "b", topic, **RANGE)
    wait_until(stage, group, is_stable, "stability")


@pytest.mark.parametrize("name", scene)
def test_scene(perform: Performance, name: str) -> None:
    perform(f"regex-{name}", scene[name])
