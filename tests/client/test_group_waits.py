"""Which member waits for which, from a description and the coordinator's log."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.client.group_descriptions import (
    CONSUMER,
    SHARE,
    GroupDescription,
    GroupMember,
)
from fencepost.client.group_waits import GroupLog, GroupWaits, Wait, waits_of
from fencepost.client.metadata import TopicPartition
from fencepost.views.group_waits import waits_explained
from fencepost.views.groups import member_state
from fencepost.wire.records import group as records
from fencepost.wire.types import Uuid

TOPIC = Uuid(bytes(range(16)))
IDS = {"t": TOPIC}


def at(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def member(name: str, has: list[int], target: list[int], epoch: int = 3) -> GroupMember:
    partitions = [tuple(map(at, numbers)) for numbers in (has, target)]
    return GroupMember(name, None, "c", "/host", partitions[0], epoch, partitions[1])


def group(*members: GroupMember, epoch: int = 3, kind: str = CONSUMER) -> GroupDescription:
    return GroupDescription("g", "Reconciling", "consumer", "uniform", 1, members, kind, epoch, 3)


def current(name: str, pending: list[int] | None) -> tuple[Any, Any]:
    key = records.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id=name)
    if pending is None:
        return key, None
    parts = [records.TopicPartitions(topic_id=TOPIC, partitions=pending)] if pending else []
    return key, records.ConsumerGroupCurrentMemberAssignmentValue(
        partitions_pending_revocation=parts
    )


def log_of(*steps: tuple[int, tuple[Any, Any]]) -> GroupLog:
    log = GroupLog("g")
    for time_ms, (key, value) in steps:
        log.replay(time_ms, key, value)
    return log


def target_made() -> tuple[Any, Any]:
    key = records.ConsumerGroupTargetAssignmentMetadataKey(group_id="g")
    return key, records.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=3)


def told(name: str, timeout_ms: int) -> tuple[Any, Any]:
    key = records.ConsumerGroupMemberMetadataKey(group_id="g", member_id=name)
    return key, records.ConsumerGroupMemberMetadataValue(rebalance_timeout_ms=timeout_ms)


def test_a_member_waits_for_what_another_one_has():
    found = waits_of(group(member("a", [0, 1], [0]), member("b", [], [1, 2])))
    assert found == [Wait("b", at(1), "a"), Wait("b", at(2))]
    assert waits_of(group(member("a", [0, 1], [0]), member("b", [], []))) == []


def test_a_static_member_that_is_away_keeps_its_partitions():
    (wait,) = waits_of(group(member("a", [0], [], epoch=-2), member("b", [], [0])))
    assert wait.is_away


def test_since_when_the_log_says():
    waiting = group(member("a", [0, 1], []), member("b", [], [0, 1]))
    log = log_of(
        (1_000, told("a", 60_000)),
        (2_000, target_made()),
        (3_000, current("a", [0])),
        (4_000, current("a", [0, 1])),
    )
    first, second = waits_of(waiting, log, IDS)
    assert (first.is_asked, first.since_ms, first.ends_ms) == (True, 3_000, 63_000)
    assert (second.is_asked, second.since_ms, second.ends_ms) == (True, 4_000, 63_000)


def test_a_holder_that_was_not_asked_yet_is_waited_for_since_the_target_was_made():
    waiting = group(member("a", [0], []), member("b", [], [0]))
    for log in (
        log_of((2_000, target_made())),
        log_of((1_000, current("a", [0])), (1_500, current("a", [])), (2_000, target_made())),
        log_of((1_000, current("a", [0])), (1_500, current("a", None)), (2_000, target_made())),
    ):
        assert waits_of(waiting, log, IDS) == [Wait("b", at(0), "a", since_ms=2_000)]


def test_the_log_of_another_group_says_nothing():
    log = GroupLog("h")
    log.replay(1_000, *target_made())
    log.replay(1_000, *current("a", [0]))
    assert (log.target_since_ms, log.pending_since_ms) == (None, {})


@pytest.mark.parametrize(
    ("one", "state"),
    [
        pytest.param(member("a", [0], [0]), "Stable", id="has its target"),
        pytest.param(member("a", [0, 1], [0], 2), "UnrevokedPartitions", id="has more"),
        pytest.param(member("a", [0], [0, 1]), "UnreleasedPartitions", id="has less"),
        pytest.param(member("a", [0], [0], 2), "Joining", id="is in an epoch before"),
        pytest.param(member("a", [0], [0], -2), "Away", id="left for a while"),
    ],
)
def test_states_of_members(one: GroupMember, state: str):
    assert member_state(one, group(one)) == state


def test_it_is_explained_in_sentences():
    waiting = group(member("a", [0], []), member("b", [], [0, 1]), epoch=4)
    waits = (
        Wait("b", at(0), "a", is_asked=True, since_ms=1_000, ends_ms=61_000),
        Wait("b", at(1)),
        Wait("b", at(0), "a", since_ms=1_000),
        Wait("b", at(0), "a", is_away=True),
    )
    assert waits_explained(GroupWaits(waiting, waits, 500), 6_000) == [
        "group g  type consumer  state Reconciling",
        "the coordinator has to compute an assignment for epoch 4 since 1970-01-01T00:00:00.500Z"
        " (5 s); the last one is of epoch 3",
        "b at /host waits for t-0 since 1970-01-01T00:00:01.000Z (5 s): a at /host was asked to"
        " give it up, and has not; it is put out of the group at 1970-01-01T00:01:01.000Z",
        "b at /host waits for t-1, which is free: its next heartbeat brings it",
        "b at /host waits for t-0 since 1970-01-01T00:00:01.000Z (5 s): a at /host has it, and has"
        " to give it up",
        "b at /host waits for t-0: a at /host has left for a while, and keeps it until its session"
        " ends",
    ]
    (_, rest) = waits_explained(GroupWaits(group(member("a", [0], [0])), ()), 0)
    assert rest == "no member waits: 1 member at rest"
    away = GroupWaits(group(member("a", [0], [0]), member("b", [1], [1], epoch=-2)), ())
    assert waits_explained(away, 0)[1:] == [
        "no member waits: 1 member at rest",
        "b at /host has left for a while, and is a member until its session ends",
    ]
    (_, share) = waits_explained(GroupWaits(group(kind=SHARE), ()), 0)
    assert share == "members of a share group do not wait for each other"
