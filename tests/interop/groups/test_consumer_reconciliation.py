"""Consumer groups: how partitions move from member to member, seen in heartbeats and descriptions.

The assignor is `range` where it matters which member gets which partition: for `uniform` that
depends on the order of a hash map of Apache Kafka's.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.errors import ErrorCode as E

from .conftest import Performance
from .consumer_words import (
    assigned,
    beat,
    beat_until_assigned,
    describe,
    heartbeat,
    join,
    states,
    wait_until,
)
from .group_words import set_group_config
from .stage import Scenes, Stage

pytestmark = [pytest.mark.interop, pytest.mark.slow]

scene = Scenes()
RANGE = {"server_assignor": "range"}


@scene
def handover(stage: Stage) -> None:
    """Revoked, given up, given: each step with the states of the group and its members."""
    topic, group = stage.topic("t", 4), stage.name("g")
    everything = {topic: [0, 1, 2, 3]}
    join(stage, group, "a", topic, **RANGE)
    second = join(stage, group, "b", topic, **RANGE)
    stage.require("second", (second.member_epoch, assigned(stage, second)), (3, {}))
    stage.require("states", states(describe(stage, group)), ("Reconciling", 3, 3, {"a": 2, "b": 3}))
    beat(stage, group, "b", 3)
    revoked = beat(stage, group, "a", 2)
    stage.require("revoked", (revoked.member_epoch, assigned(stage, revoked)), (2, {topic: [0, 1]}))
    describe(stage, group)
    beat(stage, group, "a", 2, owned=everything)
    beat(stage, group, "a", 2)
    beat(stage, group, "a", 2, owned={topic: [0, 1, 3]})
    beat(stage, group, "b", 3)
    given_up = beat(stage, group, "a", 2, owned={topic: [0, 1]})
    stage.require("given up", given_up.member_epoch, 3)
    describe(stage, group)
    given = beat(stage, group, "b", 3)
    stage.require("given", (given.member_epoch, assigned(stage, given)), (3, {topic: [2, 3]}))
    stage.require("states", states(describe(stage, group)), ("Stable", 3, 3, {"a": 3, "b": 3}))


@scene
def owned_at_once(stage: Stage) -> None:
    """A member whose heartbeat already lacks what is revoked takes one step less."""
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topic, **RANGE)
    join(stage, group, "b", topic, **RANGE)
    beat(stage, group, "a", 2, owned={topic: [0]})
    describe(stage, group)


@scene
def three_members(stage: Stage) -> None:
    """Some partitions are free at once, others when their holder has given them up."""
    topic, group = stage.topic("t", 6), stage.name("g")
    join(stage, group, "b", topic, **RANGE)
    join(stage, group, "c", topic, **RANGE)
    beat(stage, group, "b", 2)
    beat(stage, group, "b", 2, owned={topic: [0, 1, 2]})
    beat(stage, group, "c", 3)
    join(stage, group, "a", topic, **RANGE)
    describe(stage, group)
    beat(stage, group, "c", 3)
    describe(stage, group)
    beat(stage, group, "b", 3)
    describe(stage, group)
    beat(stage, group, "b", 3, owned={topic: [2]})
    beat(stage, group, "a", 4)
    describe(stage, group)
    beat(stage, group, "c", 3, owned={topic: [4, 5]})
    beat(stage, group, "b", 4)
    beat(stage, group, "a", 4)
    stage.require(
        "states", states(describe(stage, group)), ("Stable", 4, 4, {"a": 4, "b": 4, "c": 4})
    )


@scene
def revoked_again_while_it_revokes(stage: Stage) -> None:
    """KAFKA-19974: the member's epoch stays as long as it has something to give up."""
    topic, group = stage.topic("t", 6), stage.name("g")
    join(stage, group, "a", topic, **RANGE)
    join(stage, group, "b", topic, **RANGE)
    beat(stage, group, "a", 2)
    join(stage, group, "c", topic, **RANGE)
    beat(stage, group, "a", 2)
    beat(stage, group, "a", 2, owned={topic: [0, 1, 2]})
    describe(stage, group)
    beat(stage, group, "a", 2, owned={topic: [0, 1]})
    describe(stage, group)
    beat(stage, group, "b", 3)
    beat(stage, group, "c", 4)
    stage.require("state", states(describe(stage, group))[0], "Stable")


@scene
def revoked_and_left(stage: Stage) -> None:
    """What a member that leaves had to give up is free."""
    topic, group = stage.topic("t", 4), stage.name("g")
    join(stage, group, "a", topic, **RANGE)
    join(stage, group, "b", topic, **RANGE)
    beat(stage, group, "a", 2)
    beat(stage, group, "a", -1)
    describe(stage, group)
    beat(stage, group, "b", 3)
    describe(stage, group)


@scene
def target_returns_while_it_revokes(stage: Stage) -> None:
    """The partitions that it is giving up are its own again."""
    topic, group = stage.topic("t", 4), stage.name("g")
    join(stage, group, "a", topic, **RANGE)
    join(stage, group, "b", topic, **RANGE)
    beat(stage, group, "a", 2)
    beat(stage, group, "b", -1)
    beat(stage, group, "a", 2)
    describe(stage, group)
    beat(stage, group, "a", 2, owned={topic: [0, 1]})
    describe(stage, group)


@scene
def static_member_leaves_while_it_revokes(stage: Stage) -> None:
    """-2 drops what was pending."""
    topic, group = stage.topic("t", 4), stage.name("g")
    join(stage, group, "a", topic, instance_id="1", **RANGE)
    join(stage, group, "b", topic, instance_id="2", **RANGE)
    beat(stage, group, "a", 2, instance_id="1")
    beat(stage, group, "a", -2, instance_id="1")
    describe(stage, group)
    beat(stage, group, "b", 3, instance_id="2")
    describe(stage, group)
    join(stage, group, "c", topic, instance_id="1", **RANGE)
    describe(stage, group)


@scene
def subscription_shrinks(stage: Stage) -> None:
    """Topics that a member no longer subscribes to leave its assignment at once."""
    topic, other, group = stage.topic("t", 2), stage.topic("u", 2), stage.name("g")
    join(stage, group, "a", topic, other, **RANGE)
    beat(stage, group, "a", 2, subscribed_topic_names=[topic])
    describe(stage, group)
    beat(stage, group, "a", 2, owned={topic: [0, 1], other: [0, 1]})
    beat(stage, group, "a", 2, owned={topic: [0, 1]})
    describe(stage, group)


@scene
def subscription_shrinks_with_owned_partitions(stage: Stage) -> None:
    topic, other, group = stage.topic("t", 2), stage.topic("u", 2), stage.name("g")
    join(stage, group, "a", topic, other, **RANGE)
    beat(stage, group, "a", 2, subscribed_topic_names=[topic], owned={topic: [0, 1]})
    describe(stage, group)


@scene
def subscription_changes_while_it_revokes(stage: Stage) -> None:
    topic, other, group = stage.topic("t", 2), stage.topic("u", 2), stage.name("g")
    join(stage, group, "a", topic, other, **RANGE)
    join(stage, group, "b", topic, other, **RANGE)
    beat(stage, group, "a", 2)
    beat(stage, group, "a", 2, subscribed_topic_names=[topic])
    describe(stage, group)
    beat(stage, group, "a", 2, owned={topic: [0]})
    describe(stage, group)
    beat(stage, group, "b", 3)
    describe(stage, group)


@scene
def unlike_subscriptions(stage: Stage) -> None:
    topic, other, group = stage.topic("t", 2), stage.topic("u", 2), stage.name("g")
    join(stage, group, "a", topic, **RANGE)
    join(stage, group, "b", other, **RANGE)
    join(stage, group, "c", topic, other, **RANGE)
    beat(stage, group, "a", 2, owned={topic: [0]})
    beat(stage, group, "b", 3, owned={other: [0]})
    beat(stage, group, "c", 4)
    describe(stage, group)


@scene
def more_members_than_partitions(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    join(stage, group, "a", topic, **RANGE)
    join(stage, group, "b", topic, **RANGE)
    beat(stage, group, "a", 2)
    beat(stage, group, "b", 3)
    describe(stage, group)
    beat(stage, group, "a", -1)
    beat(stage, group, "b", 3)
    describe(stage, group)


@scene
def uniform_shares(stage: Stage) -> None:
    """How many partitions each member has in the end; which ones is each broker's own affair."""
    topic, other, group = stage.topic("t", 5), stage.topic("u", 3), stage.name("g")
    epochs, owned = {}, {}
    for label in "abc":
        answer = stage.connection().request(
            heartbeat(
                stage,
                group,
                stage.member(label),
                0,
                owned={},
                rebalance_timeout_ms=30_000,
                subscribed_topic_names=[topic, other],
            ),
            1,
        )
        epochs[label], owned[label] = answer.member_epoch, assigned(stage, answer) or {}
    for _ in range(6):
        for label, epoch in epochs.items():
            request = heartbeat(stage, group, label, epoch, owned=owned[label])
            answer = stage.connection().request(request, 1)
            assert answer.error_code == 0
            epochs[label] = answer.member_epoch
            if answer.assignment is not None:
                owned[label] = assigned(stage, answer) or {}
    stage.note("epochs", epochs)
    counts = sorted(sum(map(len, had.values())) for had in owned.values())
    stage.require("counts", counts, [2, 3, 3])
    held = sorted((t, p) for had in owned.values() for t, ps in had.items() for p in ps)
    stage.require("held", len(set(held)), 8)


@scene
def partitions_are_added(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    join(stage, group, "a", topic, **RANGE)
    more = CreatePartitionsTopic(name=topic, count=3, assignments=None)
    stage.ask(CreatePartitionsRequest(topics=[more], timeout_ms=30_000), 3)
    beat_until_assigned(stage, group, "a", 2)
    wait_until(stage, group, lambda one: one.group_state == "Stable", "stability")


@scene
def topic_is_deleted(stage: Stage) -> None:
    topic, other, group = stage.topic("t", 1), stage.topic("u", 1), stage.name("g")
    join(stage, group, "a", topic, other, **RANGE)
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=other)], timeout_ms=30_000)
    stage.ask(gone, 6)
    answer = beat_until_assigned(stage, group, "a", 2)
    stage.require("left", assigned(stage, answer), {topic: [0]})
    describe(stage, group)
    beat(stage, group, "a", answer.member_epoch, owned={topic: [0]})
    describe(stage, group)


@scene
def topic_is_deleted_and_made_again(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    join(stage, group, "a", topic, **RANGE)
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=30_000)
    stage.ask(gone, 6)
    answer = beat_until_assigned(stage, group, "a", 2)
    stage.require("left", assigned(stage, answer), {})
    answer = beat(stage, group, "a", answer.member_epoch, owned={})
    stage.topic("t", 2)
    answer = beat_until_assigned(stage, group, "a", answer.member_epoch)
    describe(stage, group)


# The interval between assignments


@scene
def first_assignment_is_not_delayed(stage: Stage) -> None:
    """KIP-1263: the second member within the interval waits, the first does not."""
    topic, group = stage.topic("t", 2), stage.name("g")
    set_group_config(stage, group, {"consumer.assignment.interval.ms": "15000"})
    first = join(stage, group, "a", topic, **RANGE)
    stage.require("first", (first.member_epoch, assigned(stage, first)), (2, {topic: [0, 1]}))
    second = join(stage, group, "b", topic, **RANGE)
    stage.require("second", (second.member_epoch, assigned(stage, second)), (2, {}))
    stage.require("states", states(describe(stage, group)), ("Assigning", 3, 2, {"a": 2, "b": 2}))
    beat(stage, group, "b", 3, error=E.FENCED_MEMBER_EPOCH)
    beat(stage, group, "a", 2)
    beat(stage, group, "b", -1)
    describe(stage, group)
    beat(stage, group, "a", -1)
    stage.require("states", states(describe(stage, group)), ("Empty", 5, 5, {}))
    third = join(stage, group, "c", topic, **RANGE)
    stage.require("third", (third.member_epoch, assigned(stage, third)), (6, {topic: [0, 1]}))


@scene
def assignment_after_the_interval(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    set_group_config(stage, group, {"consumer.assignment.interval.ms": "1000"})
    join(stage, group, "a", topic, **RANGE)
    join(stage, group, "b", topic, **RANGE)
    request = heartbeat(stage, group, "b", 2)

    def has_moved(answer: Any) -> bool:
        return answer.member_epoch == 3

    stage.until(request, has_moved, "epoch 3", 1)
    beat(stage, group, "a", 2)
    beat(stage, group, "a", 2, owned={topic: [0]})
    beat(stage, group, "b", 3)
    describe(stage, group)


@pytest.mark.parametrize("name", scene)
def test_scene(perform: Performance, name: str) -> None:
    perform(name, scene[name])
