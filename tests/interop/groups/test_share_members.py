"""ShareGroupHeartbeat: what is refused, who is a member in which epoch, and who gets what."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import pytest

from fencepost.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.share_group_describe import ShareGroupDescribeRequest
from fencepost.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from fencepost.wire.errors import ErrorCode as E

from ...waiting import eventually
from . import consumer_words as consumers, share_words as shares
from .classic_words import form
from .conftest import Performance
from .group_words import list_groups, set_group_config
from .offset_words import commit, delete_groups, delete_offsets, fetch_offsets
from .share_words import assigned, beat, describe, join, join_until_assigned
from .stage import Scenes, Stage

pytestmark = [pytest.mark.interop, pytest.mark.slow]

scene = Scenes()
INVALID = E.INVALID_REQUEST
JOINING = {"member_epoch": 0, "subscribed_topic_names": ["t"]}
ROWS: list[tuple[str, dict[str, Any], int]] = [
    ("joining", JOINING, 0),
    ("no-member-id", {**JOINING, "member_id": ""}, INVALID),
    ("blank-member-id", {**JOINING, "member_id": " "}, INVALID),
    ("36-characters", {**JOINING, "member_id": "m" * 36}, 0),
    ("37-characters", {**JOINING, "member_id": "m" * 37}, INVALID),
    ("no-group-id", {**JOINING, "group_id": ""}, INVALID),
    ("blank-group-id", {**JOINING, "group_id": " "}, INVALID),
    ("empty-rack-id", {**JOINING, "rack_id": ""}, INVALID),
    ("blank-rack-id", {**JOINING, "rack_id": " "}, INVALID),
    ("rack-id", {**JOINING, "rack_id": "r"}, 0),
    ("epoch-0-without-names", {"member_epoch": 0}, INVALID),
    ("epoch-0-with-no-names", {"member_epoch": 0, "subscribed_topic_names": []}, INVALID),
    ("epoch-minus-2", {"member_epoch": -2}, INVALID),
    ("epoch-minus-1-of-unknown-group", {"member_epoch": -1}, E.GROUP_ID_NOT_FOUND),
    ("epoch-1-of-unknown-group", {"member_epoch": 1}, E.GROUP_ID_NOT_FOUND),
    ("odd-names", {**JOINING, "subscribed_topic_names": ["a b", "", "t", "t"]}, 0),
]


def refused(stage: Stage, said: dict[str, Any], error: int) -> None:
    said = {"group_id": stage.name("g"), "member_id": "m", **said}
    if said["member_id"]:
        stage.member(said["member_id"])
    stage.ask(ShareGroupHeartbeatRequest(**said), 1, error=error)


@pytest.mark.parametrize(("name", "said", "error"), ROWS, ids=[name for name, *_ in ROWS])
def test_a_first_heartbeat(
    perform: Performance, name: str, said: dict[str, Any], error: int
) -> None:
    perform(f"share-first-{name}", partial(refused, said=said, error=error))


@scene
def first_member(stage: Stage) -> None:
    """Its partitions are initialised first, and come with a later heartbeat."""
    topic, group = stage.topic("t", 2), stage.name("g")
    first = join(stage, group, "m", topic)
    stage.note("at once", assigned(stage, first))
    answer = join_until_assigned(stage, group, "m", topic)
    stage.require("assigned", assigned(stage, answer), {topic: [0, 1]})
    described = describe(stage, group)
    stage.note("epochs", (described.group_epoch, described.assignment_epoch))
    beat(stage, group, "m", answer.member_epoch)
    beat(stage, group, "m", answer.member_epoch, topic)
    list_groups(stage, group)
    list_groups(stage, group, types=["share"])
    list_groups(stage, group, types=["consumer"])
    list_groups(stage, group, states=["stable"])


def wait_until_described(stage: Stage, group: str, is_wanted: Any, what: str) -> None:
    request = ShareGroupDescribeRequest(group_ids=[group])
    stage.until(request, lambda answer: is_wanted(answer.groups[0]), what, 1)


@scene
def epochs_that_are_fenced(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    epoch = join_until_assigned(stage, group, "m", topic).member_epoch
    beat(stage, group, "m", epoch + 1, error=E.FENCED_MEMBER_EPOCH)
    changed = beat(stage, group, "m", epoch, topic, stage.name("none"))
    stage.note("changed", changed.member_epoch - epoch)
    beat(stage, group, "m", epoch)
    beat(stage, group, "m", 1, error=None)
    ghost = stage.member("ghost")
    beat(stage, group, ghost, epoch, error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, ghost, -1, error=E.UNKNOWN_MEMBER_ID)


@scene
def members_that_leave(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    join_until_assigned(stage, group, "a", topic)
    join_until_assigned(stage, group, "b", topic)
    described = describe(stage, group)
    stage.require("members", len(described.members), 2)
    beat(stage, group, "b", -1)
    describe(stage, group)
    beat(stage, group, "b", -1, error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, "a", -1)
    described = describe(stage, group)
    stage.require("emptied", (described.group_state, described.members), ("Empty", []))
    beat(stage, group, "a", 1, error=E.UNKNOWN_MEMBER_ID)
    join_until_assigned(stage, group, "c", topic)
    describe(stage, group)


@scene
def members_share_partitions(stage: Stage) -> None:
    """More members than partitions: each has one, and each partition its members."""
    topic, group = stage.topic("t", 2), stage.name("g")
    requests = []
    for label in "abcd":
        epoch = join_until_assigned(stage, group, label, topic).member_epoch
        stage.entries.pop()  # which partition it is depends on the id of the topic
        requests.append(
            ShareGroupHeartbeatRequest(group_id=group, member_id=label, member_epoch=epoch)
        )

    def settled() -> list[list[int]]:
        """The partitions of each member, once all are in the group's epoch."""
        for request in requests:
            request.member_epoch = stage.connection().request(request, 1).member_epoch
        asked = ShareGroupDescribeRequest(group_ids=[group])
        (described,) = stage.connection().request(asked, 1).groups
        if any(member.member_epoch != described.group_epoch for member in described.members):
            return []
        return [
            [number for one in member.assignment.topic_partitions for number in one.partitions]
            for member in described.members
        ]

    dealt = eventually(settled, "all members to be in the group's epoch")
    stage.require("counts", [len(numbers) for numbers in dealt], [1, 1, 1, 1])
    stage.require("by partition", sorted(itertools.chain(*dealt)), [0, 0, 1, 1])


@scene
def partitions_are_added(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    epoch = join_until_assigned(stage, group, "m", topic).member_epoch
    more = CreatePartitionsTopic(name=topic, count=3, assignments=None)
    stage.ask(CreatePartitionsRequest(topics=[more], timeout_ms=30_000), 3)
    request = ShareGroupHeartbeatRequest(group_id=group, member_id="m", member_epoch=epoch)

    def has_all(answer: Any) -> bool:
        request.member_epoch = answer.member_epoch
        return (assigned(stage, answer) or {}) == {topic: [0, 1, 2]}

    stage.until(request, has_all, "three partitions", 1)
    shares.describe_offsets(stage, group)


@scene
def topic_is_deleted(stage: Stage) -> None:
    topic, other, group = stage.topic("t", 1), stage.topic("u", 1), stage.name("g")
    request = ShareGroupHeartbeatRequest(
        group_id=group,
        member_id=stage.member("m"),
        member_epoch=0,
        subscribed_topic_names=[topic, other],
    )

    def has(wanted: dict[str, list[int]]) -> Any:
        def told(answer: Any) -> bool:
            request.member_epoch = answer.member_epoch
            return (assigned(stage, answer) or {}) == wanted

        return told

    stage.until(request, has({topic: [0], other: [0]}), "both", 1)
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=other)], timeout_ms=30_000)
    stage.ask(gone, 6)
    stage.until(request, has({topic: [0]}), "the other", 1)
    shares.describe_offsets(stage, group)


@scene
def sessions_run_out(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    set_group_config(
        stage,
        group,
        {"share.session.timeout.ms": "1000", "share.heartbeat.interval.ms": "200"},
    )
    answer = join(stage, group, "m", topic)
    stage.require("interval", answer.heartbeat_interval_ms, 200)
    wait_until_described(stage, group, lambda one: one.group_state == "Empty", "an empty group")
    beat(stage, group, "m", 2, error=E.UNKNOWN_MEMBER_ID)


@scene
def other_types(stage: Stage) -> None:
    """A group of another type is not found, whichever way round."""
    topic = stage.topic("t", 1)
    classic, consumer, share = map(stage.name, ("classic", "consumer", "share"))
    form(stage, classic, {})
    consumers.join(stage, consumer, "a", topic)
    join_until_assigned(stage, share, "m", topic)
    for group in (classic, consumer):
        join(stage, group, "m", topic, error=E.GROUP_ID_NOT_FOUND)
        beat(stage, group, "m", 1, error=E.GROUP_ID_NOT_FOUND)
        beat(stage, group, "m", -1, error=E.GROUP_ID_NOT_FOUND)
        describe(stage, group, error=E.GROUP_ID_NOT_FOUND)
    consumers.join(stage, share, "b", topic, error=E.GROUP_ID_NOT_FOUND)
    consumers.describe(stage, share, error=E.GROUP_ID_NOT_FOUND)
    describe(stage, stage.name("none"), error=E.GROUP_ID_NOT_FOUND)


@scene
def classic_join_to_a_share_group(stage: Stage) -> None:
    from .classic_words import join_group

    topic, group = stage.topic("t", 1), stage.name("g")
    join_until_assigned(stage, group, "m", topic)
    join_group(stage, group, error=None)
    beat(stage, group, "m", -1)
    join_group(stage, group, error=None)
    consumers.join(stage, group, "b", topic, error=None)


@scene
def offsets_of_a_share_group(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    join_until_assigned(stage, group, "m", topic)
    for version in (2, 8, 9, 10):
        commit(stage, group, topic, version=version, error=None)
        commit(stage, group, topic, member="m", epoch=2, version=version, error=None)
    for version in (8, 9, 10):
        fetch_offsets(stage, group, topic, version=version, error=None)
    delete_offsets(stage, group, topic, error=E.GROUP_ID_NOT_FOUND)


@scene
def groups_that_are_deleted(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join_until_assigned(stage, group, "m", topic)
    for version in (0, 2, 3):
        delete_groups(stage, group, version=version, error=E.NON_EMPTY_GROUP)
    beat(stage, group, "m", -1)
    delete_groups(stage, group)
    describe(stage, group, error=E.GROUP_ID_NOT_FOUND)
    list_groups(stage, group)
    shares.describe_offsets(stage, group, error=None)
    join_until_assigned(stage, group, "m", topic)
    describe(stage, group)


@pytest.mark.parametrize("name", scene)
def test_scene(perform: Performance, name: str) -> None:
    perform(f"share-{name}", scene[name])
