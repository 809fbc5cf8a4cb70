"""StreamsGroupHeartbeat: checks, topologies, members in their epochs, tasks that move."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from fencepost.wire.api.streams_group_describe import StreamsGroupDescribeRequest
from fencepost.wire.api.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from fencepost.wire.api.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from fencepost.wire.errors import ErrorCode as E

from . import consumer_words as consumers
from .classic_words import form
from .conftest import Performance
from .group_words import list_groups, set_group_config
from .offset_words import commit, delete_groups, fetch_offsets
from .stage import Scenes, Stage

pytestmark = [pytest.mark.interop, pytest.mark.slow]

scene = Scenes()
INVALID = E.INVALID_REQUEST
Tasks = dict[str, list[int]]


def topology(*subtopologies: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=list(subtopologies))


def subtopology(name: str, *sources: str, **said: Any) -> Subtopology:
    return Subtopology(subtopology_id=name, source_topics=list(sources), **said)


def tasks_of(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=numbers) for name, numbers in tasks.items()]


def beat(
    stage: Stage,
    group: str,
    member: str,
    epoch: int,
    *,
    active: Tasks | None = None,
    error: int | None = 0,
    version: int = 1,
    **said: Any,
) -> Any:
    """A heartbeat; with active tasks it names no standby and no warm-up tasks."""
    if active is not None:
        said = {"standby_tasks": [], "warmup_tasks": [], **said, "active_tasks": tasks_of(active)}
    request = StreamsGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, **said
    )
    return stage.ask(request, version, error=error)


def join(stage: Stage, group: str, label: str, shape: Topology, **said: Any) -> Any:
    """The first heartbeat of a member, each in a process of its own."""
    said = {"rebalance_timeout_ms": 30_000, "process_id": f"process {label}", **said}
    return beat(stage, group, stage.member(label), 0, active={}, topology=shape, **said)


def describe(stage: Stage, group: str, *, error: int | None = 0, version: int = 1) -> Any:
    request = StreamsGroupDescribeRequest(group_ids=[group])
    return stage.ask(request, version, error=error).groups[0]


SHAPE = topology(subtopology("0", "t"))
JOINING: dict[str, Any] = {
    "member_epoch": 0,
    "rebalance_timeout_ms": 30_000,
    "process_id": "p",
    "topology": SHAPE,
    "active_tasks": [],
    "standby_tasks": [],
    "warmup_tasks": [],
}
ONE_TASK = tasks_of({"0": [0]})
CHANGELOG = TopicInfo(name="c", partitions=3)
REPARTITION = TopicInfo(name="r", partitions=0)
ROWS: list[tuple[str, dict[str, Any], int | None]] = [
    ("blank-group-id", {**JOINING, "group_id": " "}, INVALID),
    ("without-active-tasks", {**JOINING, "active_tasks": None}, INVALID),
    ("without-standby-tasks", {**JOINING, "standby_tasks": None}, INVALID),
    ("without-warmup-tasks", {**JOINING, "warmup_tasks": None}, INVALID),
    ("with-an-active-task", {**JOINING, "active_tasks": ONE_TASK}, INVALID),
    ("with-a-standby-task", {**JOINING, "standby_tasks": ONE_TASK}, INVALID),
    ("with-a-warmup-task", {**JOINING, "warmup_tasks": ONE_TASK}, INVALID),
    ("without-process", {**JOINING, "process_id": None}, None),
    ("empty-process", {**JOINING, "process_id": ""}, None),
    ("topology-epoch-1", {**JOINING, "topology": topology(subtopology("0", "t"), epoch=1)}, None),
    ("standby-tasks-alone", {"member_epoch": 1, "standby_tasks": []}, INVALID),
    (
        "task-offsets",
        {**JOINING, "task_offsets": [TaskOffset(subtopology_id="0", partition=0, offset=5)]},
        None,
    ),
    ("empty-tag", {**JOINING, "client_tags": [KeyValue(key="", value="")]}, None),
]


def refused(stage: Stage, said: dict[str, Any], error: int | None, version: int = 1) -> None:
    said = {"group_id": stage.name("g"), "member_id": "m", **said}
    if said["member_id"]:
        stage.member(said["member_id"])
    stage.ask(StreamsGroupHeartbeatRequest(**said), version, error=error)


@pytest.mark.parametrize(("name", "said", "error"), ROWS, ids=[name for name, *_ in ROWS])
def test_a_first_heartbeat(
    perform: Performance, name: str, said: dict[str, Any], error: int | None
) -> None:
    perform(f"streams-member-first-{name}", partial(refused, said=said, error=error))


@scene
def first_member(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topology(subtopology("0", topic)))
    describe(stage, group)
    describe(stage, group, version=0)
    list_groups(stage, group)
    list_groups(stage, group, types=["streams"])
    beat(stage, group, "a", 2)
    beat(stage, group, "a", 2, active={"0": [0, 1]})
    beat(stage, group, "a", 2, active={"0": [0]})
    beat(stage, group, "a", 2, active={"0": [9]}, error=None)
    beat(stage, group, "a", 2, active={"9": [0]}, error=None)


@scene
def source_topics_that_are_missing(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    shape = topology(subtopology("0", topic), subtopology("1", stage.name("none")))
    first = join(stage, group, "a", shape)
    stage.require("status", [one.status_code for one in first.status], [1])
    describe(stage, group)
    beat(stage, group, "a", first.member_epoch)


@scene
def sources_that_are_not_copartitioned(stage: Stage) -> None:
    topic, other, group = stage.topic("t", 1), stage.topic("u", 2), stage.name("g")
    together = CopartitionGroup(source_topics=[0, 1])
    shape = topology(subtopology("0", topic, other, copartition_groups=[together]))
    first = join(stage, group, "a", shape)
    stage.require("status", [one.status_code for one in first.status], [2])
    describe(stage, group)


@scene
def epochs_that_are_fenced(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topology(subtopology("0", topic)))
    beat(stage, group, "a", 3, error=E.FENCED_MEMBER_EPOCH)
    beat(stage, group, "a", 1, error=E.FENCED_MEMBER_EPOCH)
    beat(stage, group, "a", 1, active={"0": [0, 1]}, error=None)
    beat(stage, group, "a", 1, active={"0": [0, 1, 2]}, error=None)
    ghost = stage.member("ghost")
    beat(stage, group, ghost, 2, error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, ghost, -1, error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, ghost, -2, instance_id="i", error=E.UNKNOWN_MEMBER_ID)


@scene
def tasks_move(stage: Stage) -> None:
    topic, group = stage.topic("t", 4), stage.name("g")
    shape = topology(subtopology("0", topic))
    join(stage, group, "a", shape)
    join(stage, group, "b", shape)
    describe(stage, group)
    answer = beat(stage, group, "a", 2)
    kept = {one.subtopology_id: one.partitions for one in answer.active_tasks}
    beat(stage, group, "b", 3)
    beat(stage, group, "a", 2, active={"0": [0, 1, 2, 3]})
    beat(stage, group, "a", 2, active=kept)
    beat(stage, group, "b", 3)
    describe(stage, group)
    beat(stage, group, "b", -1)
    describe(stage, group)
    beat(stage, group, "a", 3)
    beat(stage, group, "a", -1)
    describe(stage, group)
    list_groups(stage, group)
    beat(stage, group, "a", -1, error=E.UNKNOWN_MEMBER_ID)


@scene
def standby_tasks(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    set_group_config(stage, group, {"streams.num.standby.replicas": "1"})
    stage.topic("g-c", 2)
    changelog = TopicInfo(name=stage.name("g-c"))
    shape = topology(subtopology("0", topic, state_changelog_topics=[changelog]))
    join(stage, group, "a", shape)
    join(stage, group, "b", shape)
    beat(stage, group, "a", 2)
    beat(stage, group, "b", 3)
    describe(stage, group)


@scene
def topologies_that_differ(stage: Stage) -> None:
    topic, other, group = stage.topic("t", 1), stage.topic("u", 1), stage.name("g")
    join(stage, group, "a", topology(subtopology("0", topic)))
    join(stage, group, "b", topology(subtopology("0", other)), error=None)
    join(stage, group, "c", topology(subtopology("0", topic)))
    join(stage, group, "d", topology(subtopology("0", other), epoch=1), error=None)
    describe(stage, group)


@scene
def an_older_topology(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    join(stage, group, "a", topology(subtopology("0", topic), epoch=5), error=None)
    join(stage, group, "b", topology(subtopology("0", topic), epoch=4), error=None)
    describe(stage, group, error=None)


@scene
def members_are_static(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    shape = topology(subtopology("0", topic))
    join(stage, group, "a", shape, instance_id="i")
    join(stage, group, "b", shape, instance_id="i", error=E.UNRELEASED_INSTANCE_ID)
    beat(stage, group, stage.member("b"), 2, instance_id="i", error=E.FENCED_INSTANCE_ID)
    beat(stage, group, "b", 2, instance_id="j", error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, "a", -2, instance_id="i")
    describe(stage, group)
    join(stage, group, "c", shape, instance_id="i")
    describe(stage, group)
    beat(stage, group, "a", 2, instance_id="i", error=E.FENCED_INSTANCE_ID)
    beat(stage, group, "c", -1, instance_id="i")
    describe(stage, group)


@scene
def application_is_shut_down(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    shape = topology(subtopology("0", topic))
    join(stage, group, "a", shape)
    join(stage, group, "b", shape)
    beat(stage, group, "a", 2, shutdown_application=True)
    answer = beat(stage, group, "b", 3)
    stage.require("status", [one.status_code for one in answer.status or []], [4])
    beat(stage, group, "a", -1)
    beat(stage, group, "b", -1)
    join(stage, group, "c", shape)


@scene
def endpoints(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    shape = topology(subtopology("0", topic))
    join(stage, group, "a", shape, user_endpoint=Endpoint(host="h1", port=1))
    beat(stage, group, "a", 2, endpoint_information_epoch=0)
    beat(stage, group, "a", 2, endpoint_information_epoch=-1)
    join(stage, group, "b", shape, user_endpoint=Endpoint(host="h2", port=2))
    beat(stage, group, "a", 2, endpoint_information_epoch=0)
    describe(stage, group)


@scene
def first_assignment_is_delayed(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    set_group_config(stage, group, {"streams.initial.rebalance.delay.ms": "1500"})
    first = join(stage, group, "a", topology(subtopology("0", topic)))
    stage.require("status", [one.status_code for one in first.status or []], [5])
    describe(stage, group)
    request = StreamsGroupHeartbeatRequest(
        group_id=group, member_id="a", member_epoch=first.member_epoch
    )

    def has_tasks(answer: Any) -> bool:
        request.member_epoch = answer.member_epoch
        return bool(answer.active_tasks)

    stage.until(request, has_tasks, "tasks", 1)
    describe(stage, group)


@scene
def sessions_run_out(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    set_group_config(
        stage,
        group,
        {"streams.session.timeout.ms": "1000", "streams.heartbeat.interval.ms": "200"},
    )
    join(stage, group, "a", topology(subtopology("0", topic)))
    request = StreamsGroupDescribeRequest(group_ids=[group])
    stage.until(request, lambda one: one.groups[0].group_state == "Empty", "an empty group", 1)


@scene
def other_types(stage: Stage) -> None:
    topic = stage.topic("t", 1)
    classic, consumer, streams = map(stage.name, ("classic", "consumer", "streams"))
    form(stage, classic, {})
    consumers.join(stage, consumer, "a", topic)
    shape = topology(subtopology("0", topic))
    join(stage, streams, "m", shape)
    for group in (classic, consumer):
        join(stage, group, "m", shape, error=None)
        beat(stage, group, "m", 1, error=E.GROUP_ID_NOT_FOUND)
        describe(stage, group, error=E.GROUP_ID_NOT_FOUND)
    consumers.join(stage, streams, "b", topic, error=E.GROUP_ID_NOT_FOUND)
    consumers.describe(stage, streams, error=E.GROUP_ID_NOT_FOUND)
    describe(stage, stage.name("none"), error=E.GROUP_ID_NOT_FOUND)


@scene
def offsets_by_epoch(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topology(subtopology("0", topic)))
    commit(stage, group, topic, member="a", epoch=2)
    commit(stage, group, topic, member="a", epoch=3, error=E.STALE_MEMBER_EPOCH)
    commit(stage, group, topic, member="a", epoch=1, error=E.STALE_MEMBER_EPOCH)
    commit(stage, group, topic, member="x", epoch=2, error=E.UNKNOWN_MEMBER_ID)
    commit(stage, group, topic, member="a", epoch=2, version=8, error=None)
    fetch_offsets(stage, group, topic, member="a", epoch=2)
    fetch_offsets(stage, group, topic, member="a", epoch=1, error=E.STALE_MEMBER_EPOCH)
    delete_groups(stage, group, error=E.NON_EMPTY_GROUP)
    beat(stage, group, "a", -1)
    delete_groups(stage, group)
    describe(stage, group, error=E.GROUP_ID_NOT_FOUND)


@scene
def topology_descriptions_are_not_kept(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    join(stage, group, "a", topology(subtopology("0", topic)))
    request = StreamsGroupTopologyDescriptionUpdateRequest(group_id=group, member_id="a")
    stage.ask(request, 0, error=E.UNSUPPORTED_VERSION)


@pytest.mark.parametrize("name", scene)
def test_scene(perform: Performance, name: str) -> None:
    perform(f"streams-member-{name}", scene[name])
