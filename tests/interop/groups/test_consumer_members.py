"""ConsumerGroupHeartbeat: who is a member, in which epoch, and how a member leaves.

One scene for each rule of the order in which the coordinator applies them: the group's type, size,
unknown members, static members, epochs.
"""

from __future__ import annotations

import pytest

from fencepost.wire.errors import ErrorCode as E

from .classic_words import enter, leave
from .conftest import Performance
from .consumer_words import (
    assigned,
    beat,
    beat_until_assigned,
    describe,
    join,
    states,
    wait_until,
)
from .group_words import list_groups, set_group_config
from .stage import Scenes, Stage

pytestmark = [pytest.mark.interop, pytest.mark.slow]

scene = Scenes()


@scene
def first_member_gets_all(stage: Stage) -> None:
    """A new group is in epoch 1, and its first member in epoch 2 with partitions at once."""
    topic, group = stage.topic("t", 3), stage.name("g")
    first = join(stage, group, "m", topic)
    stage.require("epoch", first.member_epoch, 2)
    stage.require("partitions", assigned(stage, first), {topic: [0, 1, 2]})
    stage.require("states", states(describe(stage, group)), ("Stable", 2, 2, {"m": 2}))
    describe(stage, group, version=0)
    list_groups(stage, group)


@scene
def member_without_topics(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    first = join(stage, group, "m")
    describe(stage, group)
    named = beat(stage, group, "m", first.member_epoch, subscribed_topic_names=[topic])
    describe(stage, group)
    beat(stage, group, "m", named.member_epoch, subscribed_topic_names=[])
    describe(stage, group)


@scene
def topic_that_does_not_exist_yet(stage: Stage) -> None:
    group = stage.name("g")
    first = join(stage, group, "m", stage.name("t"))
    describe(stage, group)
    stage.topic("t", 2)
    beat_until_assigned(stage, group, "m", first.member_epoch)
    describe(stage, group)


@scene
def full_and_short_heartbeats(stage: Stage) -> None:
    """The assignment is in the answer after epoch 0, to a full request, and when it changed."""
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "m", topic)
    beat(stage, group, "m", 2)
    beat(stage, group, "m", 2, owned={topic: [0, 1]})
    beat(stage, group, "m", 2, owned={topic: [0]})
    beat(stage, group, "m", 2, rebalance_timeout_ms=30_000)
    beat(stage, group, "m", 2, rebalance_timeout_ms=30_000, subscribed_topic_names=[topic])
    full = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": [topic]}
    beat(stage, group, "m", 2, owned={topic: [0, 1]}, **full)
    beat(stage, group, "m", 2, owned={}, **full)
    beat(stage, group, "m", 2, owned={topic: [7]}, **full)


@scene
def rejoin_with_epoch_0(stage: Stage) -> None:
    """A member that knows no epoch joins again and keeps its place."""
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "m", topic)
    again = join(stage, group, "m", topic)
    stage.require("epoch", again.member_epoch, 2)
    join(stage, group, "m", stage.topic("u", 1))
    describe(stage, group)


@scene
def unknown_members(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "m", topic)
    ghost = stage.member("ghost")
    beat(stage, group, ghost, 1, error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, ghost, 2, error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, ghost, -1, error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, ghost, -2, instance_id="i", error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, ghost, 1, instance_id="i", error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, ghost, 2, subscribed_topic_regex="([", error=E.UNKNOWN_MEMBER_ID)


@scene
def epochs_that_are_fenced(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "m", topic)
    beat(stage, group, "m", 3, error=E.FENCED_MEMBER_EPOCH)
    beat(stage, group, "m", 1, error=E.FENCED_MEMBER_EPOCH)
    beat(stage, group, "m", 2**31 - 1, error=E.FENCED_MEMBER_EPOCH)
    beat(stage, group, "m", 3, subscribed_topic_regex="([", error=E.FENCED_MEMBER_EPOCH)
    beat(stage, group, "m", 2)


@scene
def answer_that_was_lost(stage: Stage) -> None:
    """The epoch before is accepted if the owned partitions are sent and are its own."""
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "m", topic)
    other = stage.topic("u", 1)
    beat(stage, group, "m", 2, subscribed_topic_names=[topic, other])
    stage.require("states", states(describe(stage, group)), ("Stable", 3, 3, {"m": 3}))
    beat(stage, group, "m", 2, error=E.FENCED_MEMBER_EPOCH)
    beat(stage, group, "m", 2, owned={topic: [0, 1, 2]}, error=E.FENCED_MEMBER_EPOCH)
    beat(stage, group, "m", 2, owned={topic: [0, 1]})
    beat(stage, group, "m", 2, owned={topic: [0]})
    beat(stage, group, "m", 2, owned={})
    beat(stage, group, "m", 2, owned={topic: [0], other: [0]})
    beat(stage, group, "m", 1, owned={}, error=E.FENCED_MEMBER_EPOCH)
    beat(stage, group, "m", 3)


@scene
def one_of_two_leaves(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topic, server_assignor="range")
    join(stage, group, "b", topic, server_assignor="range")
    describe(stage, group)
    beat(stage, group, "b", -1)
    describe(stage, group)
    beat(stage, group, "b", -1, error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, "a", 2)
    beat(stage, group, "a", 2, owned={topic: [0]})
    describe(stage, group)


@scene
def last_member_leaves(stage: Stage) -> None:
    """KAFKA-20442: both epochs of an emptied group are equal."""
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "m", topic)
    beat(stage, group, "m", -1)
    stage.require("states", states(describe(stage, group)), ("Empty", 3, 3, {}))
    list_groups(stage, group)
    beat(stage, group, "m", -1, error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, "m", 2, error=E.UNKNOWN_MEMBER_ID)
    join(stage, group, "n", topic)
    stage.require("states", states(describe(stage, group)), ("Stable", 4, 4, {"n": 4}))


@scene
def leaving_with_other_fields(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topic)
    beat(stage, group, "a", -1, subscribed_topic_names=["x"], subscribed_topic_regex="([")
    describe(stage, group)


@scene
def heartbeat_of_another_type(stage: Stage) -> None:
    """A classic group that is not empty is upgraded only where its protocol is `consumer`."""
    group = stage.name("g")
    enter(stage, group, protocol_type="connect", protocols={"x": b"1"})
    join(stage, group, "m", "t", error=E.GROUP_ID_NOT_FOUND)
    beat(stage, group, "m", 1, error=E.GROUP_ID_NOT_FOUND)
    beat(stage, group, "m", -1, error=E.GROUP_ID_NOT_FOUND)
    beat(stage, group, "m", -2, instance_id="i", error=E.GROUP_ID_NOT_FOUND)
    describe(stage, group, error=E.GROUP_ID_NOT_FOUND)


@scene
def empty_classic_group_is_replaced(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    joined = enter(stage, group)
    leave(stage, group, joined.member_id)
    list_groups(stage, group)
    beat(stage, group, stage.member("m"), 1, error=E.GROUP_ID_NOT_FOUND)
    list_groups(stage, group)
    join(stage, group, "m", topic)
    describe(stage, group)
    list_groups(stage, group)


# Static members


@scene
def static_member_returns(stage: Stage) -> None:
    """After -2 the instance comes back as another member, with what it had."""
    topic, group = stage.topic("t", 2), stage.name("g")
    static = {"instance_id": "i", "server_assignor": "range"}
    join(stage, group, "a", topic, **static)
    join(stage, group, "b", topic, server_assignor="range")
    beat(stage, group, "a", 2, owned={topic: [0, 1]}, instance_id="i")
    describe(stage, group)
    beat(stage, group, "a", -2, instance_id="i")
    stage.require("epoch", dict(states(describe(stage, group))[3])["a"], -2)
    again = join(stage, group, "c", topic, **static)
    stage.note("assigned", assigned(stage, again))
    describe(stage, group)
    beat(stage, group, "a", 2, instance_id="i", error=E.FENCED_INSTANCE_ID)
    beat(stage, group, "a", -2, instance_id="i", error=E.FENCED_INSTANCE_ID)
    beat(stage, group, "a", -1, instance_id="i", error=E.FENCED_INSTANCE_ID)
    beat(stage, group, "a", 2, error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, "c", again.member_epoch, instance_id="i")
    beat(stage, group, "c", again.member_epoch)
    describe(stage, group)


@scene
def static_member_that_is_still_there(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topic, instance_id="i")
    join(stage, group, "b", topic, instance_id="i", error=E.UNRELEASED_INSTANCE_ID)
    beat(stage, group, stage.member("b"), 2, instance_id="i", error=E.FENCED_INSTANCE_ID)
    beat(stage, group, "b", 2, instance_id="j", error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, "b", -1, instance_id="i", error=E.FENCED_INSTANCE_ID)
    join(stage, group, "a", topic, instance_id="i", error=E.UNRELEASED_INSTANCE_ID)
    describe(stage, group)


@scene
def static_member_changes_subscription_as_it_returns(stage: Stage) -> None:
    topic, other, group = stage.topic("t", 2), stage.topic("u", 1), stage.name("g")
    join(stage, group, "a", topic, instance_id="i")
    beat(stage, group, "a", -2, instance_id="i")
    join(stage, group, "b", topic, other, instance_id="i")
    describe(stage, group)


@scene
def static_member_returns_with_another_assignor(stage: Stage) -> None:
    """KAFKA-20434: the effective assignor changes, so the group's epoch does."""
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topic, instance_id="i", server_assignor="range")
    beat(stage, group, "a", -2, instance_id="i")
    join(stage, group, "b", topic, instance_id="i", server_assignor="uniform")
    described = describe(stage, group)
    stage.require("assignor", described.assignor_name, "uniform")


@scene
def assignor_changes(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topic)
    beat(stage, group, "a", 2, server_assignor="uniform")
    described = describe(stage, group)
    stage.require("epoch", described.group_epoch, 2)
    beat(stage, group, "a", 2, server_assignor="range")
    described = describe(stage, group)
    stage.require("epoch", (described.group_epoch, described.assignor_name), (3, "range"))
    beat(stage, group, "a", 3, server_assignor="sticky", error=E.UNSUPPORTED_ASSIGNOR)


@scene
def static_member_leaves_for_ever(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topic, instance_id="i")
    beat(stage, group, "a", -1, instance_id="i")
    describe(stage, group)
    join(stage, group, "b", topic, instance_id="i")
    beat(stage, group, "b", -2, instance_id="i")
    beat(stage, group, "b", -1, instance_id="i")
    describe(stage, group)


@scene
def static_member_without_its_instance_id(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topic, instance_id="i")
    beat(stage, group, "a", 2)
    beat(stage, group, "a", -1)
    describe(stage, group)


@scene
def temporary_leave_of_an_unknown_instance(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topic)
    beat(stage, group, "a", -2, instance_id="i", error=E.UNKNOWN_MEMBER_ID)
    describe(stage, group)


@scene
def rejoin_of_a_member_that_left_for_now(stage: Stage) -> None:
    """The same member id may come back, too (KAFKA-19233)."""
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topic, instance_id="i")
    beat(stage, group, "a", -2, instance_id="i")
    beat(stage, group, "a", 2, instance_id="i", error=E.FENCED_MEMBER_EPOCH)
    beat(stage, group, "a", -2, instance_id="i")
    join(stage, group, "a", topic, instance_id="i")
    describe(stage, group)
    beat(stage, group, "a", 2, instance_id="i")


@scene
def static_member_changes_its_instance_id(stage: Stage) -> None:
    """KAFKA-20292, 20747."""
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topic, instance_id="i")
    join(stage, group, "a", topic, instance_id="j")
    describe(stage, group)
    join(stage, group, "b", topic, instance_id="i")
    describe(stage, group)


# Timers


@scene
def session_that_runs_out(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    set_group_config(
        stage,
        group,
        {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "200"},
    )
    answer = join(stage, group, "m", topic)
    stage.require("interval", answer.heartbeat_interval_ms, 200)
    wait_until_empty(stage, group)
    beat(stage, group, "m", 2, error=E.UNKNOWN_MEMBER_ID)


@scene
def session_of_a_static_member_that_left(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    set_group_config(
        stage,
        group,
        {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "200"},
    )
    join(stage, group, "m", topic, instance_id="i")
    beat(stage, group, "m", -2, instance_id="i")
    wait_until_empty(stage, group)


@scene
def rebalance_that_runs_out(stage: Stage) -> None:
    """A member that does not give up what is revoked is removed after its own rebalance timeout."""
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topic, server_assignor="range", rebalance_timeout_ms=700)
    join(stage, group, "b", topic, server_assignor="range")
    beat(stage, group, "a", 2)
    stage.require("states", states(describe(stage, group))[0], "Reconciling")
    wait_until(stage, group, lambda one: len(one.members) == 1, "one member")
    beat(stage, group, "a", 2, error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, "b", 3)
    describe(stage, group)


def wait_until_empty(stage: Stage, group: str) -> None:
    wait_until(stage, group, lambda one: one.group_state == "Empty", "an empty group")


@scene
def client_and_rack_are_kept(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    join(stage, group, "m", topic, rack_id="r1", by="app")
    describe(stage, group)
    beat(stage, group, "m", 2, rack_id="r2", by="app2")
    describe(stage, group)
    beat(stage, group, "m", 2, rebalance_timeout_ms=5_000)
    stage.require("epoch", describe(stage, group).group_epoch, 2)


@pytest.mark.parametrize("name", scene)
def test_scene(perform: Performance, name: str) -> None:
    perform(name, scene[name])
