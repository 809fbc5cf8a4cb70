"""StreamsGroupHeartbeat and StreamsGroupDescribe: the same answers as Apache Kafka's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fencepost.wire.api.delete_groups import DeleteGroupsRequest
from fencepost.wire.api.describe_groups import DescribeGroupsRequest
from fencepost.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fencepost.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from fencepost.wire.api.streams_group_describe import StreamsGroupDescribeRequest
from fencepost.wire.api.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    TaskOffset,
    TopicInfo,
)
from fencepost.wire.api.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from fencepost.wire.errors import ErrorCode as E

from .conftest import Performance
from .group_words import list_groups, set_group_config
from .stage import Scenes, Stage
from .streams_words import LATEST, active_of, beat, describe, join, statuses, subtopology, topology

pytestmark = [pytest.mark.interop, pytest.mark.slow]

INVALID = E.INVALID_REQUEST
PLAIN = topology(subtopology("t"))
JOINING: dict[str, Any] = {
    "member_epoch": 0,
    "rebalance_timeout_ms": 30_000,
    "topology": PLAIN,
    "active_tasks": [],
    "standby_tasks": [],
    "warmup_tasks": [],
}
FIXED_CHANGELOG = topology(subtopology("t"))
FIXED_CHANGELOG.subtopologies[0].state_changelog_topics = [TopicInfo(name="c", partitions=1)]
TOGETHER = {"active_tasks": [], "standby_tasks": None, "warmup_tasks": None}
ROWS: list[tuple[str, dict[str, Any], int]] = [
    ("no-member-id", {**JOINING, "member_id": ""}, INVALID),
    ("blank-member-id", {**JOINING, "member_id": " "}, INVALID),
    ("no-group-id", {**JOINING, "group_id": ""}, INVALID),
    ("empty-instance-id", {**JOINING, "instance_id": ""}, INVALID),
    ("empty-rack-id", {**JOINING, "rack_id": ""}, INVALID),
    ("no-rebalance-timeout", {**JOINING, "rebalance_timeout_ms": -1}, INVALID),
    ("no-topology", {**JOINING, "topology": None}, INVALID),
    ("no-task-lists", {**JOINING, "active_tasks": None, "standby_tasks": None,
                       "warmup_tasks": None}, INVALID),
    ("one-task-list", {**JOINING, **TOGETHER}, INVALID),
    ("one-task-list-later", {"member_epoch": 1, **TOGETHER}, INVALID),
    ("topology-later", {"member_epoch": 1, "topology": PLAIN}, INVALID),
    ("topology-at-leaving", {"member_epoch": -1, "topology": PLAIN}, INVALID),
    ("epoch-minus-2-dynamic", {"member_epoch": -2}, INVALID),
    ("epoch-minus-3", {"member_epoch": -3}, INVALID),
    ("source-regex", {**JOINING, "topology": topology(subtopology("t", regex=["a"]))}, INVALID),
    ("regex-before-member-id", {**JOINING, "member_id": "",
                                "topology": topology(subtopology(regex=["a"]))}, INVALID),
    ("fixed-changelog", {**JOINING, "topology": FIXED_CHANGELOG}, E.STREAMS_INVALID_TOPOLOGY),
    ("internal-topic", {**JOINING, "topology": topology(subtopology("__consumer_offsets"))},
     E.STREAMS_INVALID_TOPOLOGY),
    ("internal-topic-before-group-id", {**JOINING, "group_id": "",
     "topology": topology(subtopology("t", sinks=["__transaction_state"]))},
     E.STREAMS_INVALID_TOPOLOGY),
    ("invalid-topic-name", {**JOINING, "topology": topology(subtopology("a b"))},
     E.STREAMS_INVALID_TOPOLOGY),
    ("invalid-changelog-name", {**JOINING, "topology": topology(subtopology("t", changelogs=[""]))},
     E.STREAMS_INVALID_TOPOLOGY),
    ("nothing-to-read", {**JOINING, "topology": topology(subtopology())},
     E.STREAMS_INVALID_TOPOLOGY),
    ("no-subtopology", {**JOINING, "topology": topology()}, 0),
    ("twice-the-same-id", {**JOINING, "topology": topology(subtopology("t"), subtopology("u"))},
     E.UNKNOWN_SERVER_ERROR),
    ("tags-twice", {**JOINING, "client_tags": [KeyValue(key="k", value=v) for v in "ab"]},
     E.UNKNOWN_SERVER_ERROR),
    ("negative-topology-epoch", {**JOINING, "topology": topology(subtopology("t"), epoch=-1)},
     E.UNKNOWN_SERVER_ERROR),
    ("missing-source", JOINING, 0),
    ("missing-sources", {**JOINING, "topology": topology(subtopology(*"zyxw"))}, 0),
    ("epoch-1-of-unknown-group", {"member_epoch": 1}, E.GROUP_ID_NOT_FOUND),
    ("epoch-minus-1-of-unknown-group", {"member_epoch": -1}, E.GROUP_ID_NOT_FOUND),
    ("epoch-minus-2-of-unknown-group", {"member_epoch": -2, "instance_id": "i"},
     E.GROUP_ID_NOT_FOUND),
]  # fmt: skip


def first(stage: Stage, said: dict[str, Any], error: int, version: int) -> None:
    said = {"group_id": stage.name("g"), "member_id": "m", **said}
    if said["member_id"]:
        stage.member(said["member_id"])
    answer = stage.ask(StreamsGroupHeartbeatRequest(**said), version, error=error)
    stage.note("error message", answer.error_message)


@pytest.mark.parametrize(("name", "said", "error"), ROWS, ids=[name for name, *_ in ROWS])
def test_a_first_heartbeat(
    perform: Performance, name: str, said: dict[str, Any], error: int
) -> None:
    perform(f"streams-first-{name}", partial(first, said=said, error=error, version=LATEST))


@pytest.mark.parametrize("name", ["missing-source", "source-regex", "invalid-topic-name"])
def test_a_first_heartbeat_of_version_0(perform: Performance, name: str) -> None:
    ((_, said, error),) = [row for row in ROWS if row[0] == name]
    perform(f"streams-first-v0-{name}", partial(first, said=said, error=error, version=0))


scene = Scenes()


@scene
def streams_one_member(stage: Stage) -> None:
    """A member from its first heartbeat to the deletion of its group."""
    name, group = stage.topic("t", 4), stage.name("g")
    sent = topology(subtopology(name))
    answer = join(stage, group, "a", sent, rack_id="r")
    stage.require("its tasks", active_of(answer), {"0": [0, 1, 2, 3]})
    describe(stage, group)
    describe(stage, group, version=0)
    beat(stage, group, "a", 2)
    beat(stage, group, "a", 2, owned=({"0": [0, 1, 2, 3]}, {}))
    beat(stage, group, "a", 3, error=E.FENCED_MEMBER_EPOCH)
    beat(stage, group, "a", 1, error=E.FENCED_MEMBER_EPOCH)
    beat(stage, group, "b", 2, error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, "a", 2, owned=({"9": [0]}, {}), error=INVALID)
    beat(stage, group, "a", 2, owned=({"0": [4]}, {}), error=INVALID)
    beat(stage, group, "a", 2, owned=({"0": [-1]}, {}), error=INVALID)
    join(stage, group, "a", sent, rack_id="r")
    join(stage, group, "b", topology(subtopology(name, id_="1")), error=INVALID)
    join(stage, group, "b", topology(subtopology(name), epoch=1), error=INVALID)
    beat(stage, group, "a", 2, rack_id="s")
    describe(stage, group)
    request = DeleteGroupsRequest(groups_names=[group])
    stage.ask(request, 2, error=E.NON_EMPTY_GROUP)
    stage.ask(DescribeGroupsRequest(groups=[group]), 6, error=E.GROUP_ID_NOT_FOUND)
    stage.ask(DescribeGroupsRequest(groups=[group]), 5)
    beat(stage, group, "b", -1, error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, "a", -1)
    describe(stage, group)
    stage.ask(request, 2)
    describe(stage, group, error=E.GROUP_ID_NOT_FOUND)


@scene
def streams_two_members(stage: Stage) -> None:
    """A second member takes half of the tasks, once they are given up, and the first takes them
    back when it leaves."""
    name, group = stage.topic("t", 4), stage.name("g")
    sent = topology(subtopology(name))
    everything = ({"0": [0, 1, 2, 3]}, {})
    join(stage, group, "a", sent)
    answer = join(stage, group, "b", sent)
    stage.require("no tasks are free", active_of(answer), {})
    describe(stage, group)
    answer = beat(stage, group, "a", 2, owned=everything)
    kept = active_of(answer) or {}
    stage.require("half of them is kept", len(kept.get("0", ())), 2)
    beat(stage, group, "b", 3)
    describe(stage, group)
    beat(stage, group, "a", 2)
    beat(stage, group, "a", 2, owned=(kept, {}))
    describe(stage, group)
    beat(stage, group, "a", 2, owned=(kept, {}))  # its answer was lost
    beat(stage, group, "a", 2, error=E.FENCED_MEMBER_EPOCH)
    beat(stage, group, "a", 2, owned=everything, error=E.FENCED_MEMBER_EPOCH)
    answer = beat(stage, group, "b", 3, owned=({}, {}))
    stage.require("the other half is given", len((active_of(answer) or {}).get("0", ())), 2)
    describe(stage, group)
    beat(stage, group, "a", -1)
    answer = beat(stage, group, "b", 3)
    stage.require("all of them are given", active_of(answer), {"0": [0, 1, 2, 3]})
    describe(stage, group)
    beat(stage, group, "b", -1)


def without_details(seen: Any) -> Any:
    """An answer without the words of its statuses, which name topics in the order of a hash."""
    return {**seen, "status": [one["status_code"] for one in seen["status"]]}


@scene
def streams_internal_topics(stage: Stage) -> None:
    """Repartition and changelog topics are created, and then there are tasks."""
    name, group = stage.topic("t", 3), stage.name("g")
    repartition, changelog = stage.name("r"), stage.name("c")
    sent = topology(
        subtopology(name, id_="0", sinks=[repartition]),
        subtopology(id_="1", repartition={repartition: 0}, changelogs=[changelog]),
    )
    answer = join(stage, group, "a", sent, only=without_details)
    stage.require("statuses", statuses(answer), [3])
    ((said, names),) = (one.status_detail.split(": ") for one in answer.status or ())
    # The order of the names is that of a hash table of Kafka's.
    stage.note("detail", (said, sorted(names.split(", "))))
    request = StreamsGroupHeartbeatRequest(group_id=group, member_id="a", member_epoch=2)

    def is_ready(answer: Any) -> bool:
        request.member_epoch = answer.member_epoch
        return bool(answer.active_tasks)

    answer = stage.until(request, is_ready, "its tasks", LATEST)
    wanted = {"0": [0, 1, 2], "1": [0, 1, 2]}
    stage.require("its tasks", active_of(answer), wanted)

    def shape(seen: Any) -> Any:
        (one,) = seen["groups"]
        return one["group_state"], one["topology"]

    # How often the epoch was raised depends on how the two topics appeared.
    stage.ask(StreamsGroupDescribeRequest(group_ids=[group]), LATEST, only=shape)
    beat(stage, group, "a", -1)


def configuring(stage: Stage, make: Callable[[Stage], Any], wanted: list[int]) -> None:
    group = stage.name("g")
    answer = join(stage, group, "a", make(stage))
    stage.require("statuses", statuses(answer), wanted)
    stage.note("details", sorted(one.status_detail for one in answer.status or ()))
    describe(stage, group)
    beat(stage, group, "a", answer.member_epoch)
    beat(stage, group, "a", -1)


def unequal(stage: Stage) -> Any:
    sources = stage.topic("t", 2), stage.topic("u", 3)
    return topology(subtopology(*sources, copartition=[([0, 1], [])]))


def wrong_changelog(stage: Stage) -> Any:
    return topology(subtopology(stage.topic("t", 2), changelogs=[stage.topic("c", 3)]))


def wrong_fixed(stage: Stage) -> Any:
    name, other = stage.topic("t", 2), stage.topic("u", 3)
    made = stage.name("r")
    return topology(
        subtopology(name, id_="0", sinks=[made]),
        subtopology(other, id_="1", repartition={made: 2}, copartition=[([0], [0])]),
    )


def largest_source(stage: Stage) -> Any:
    return topology(subtopology(stage.topic("t", 2), stage.topic("u", 3)))


CONFIGURING: dict[str, tuple[Callable[[Stage], Any], list[int]]] = {
    "unequal": (unequal, [2]),
    "wrong-changelog": (wrong_changelog, [2]),
    "wrong-fixed": (wrong_fixed, [2]),
    "largest": (largest_source, []),
}


@pytest.mark.parametrize(("make", "wanted"), CONFIGURING.values(), ids=CONFIGURING)
def test_topics_are_held_against_the_topology(
    perform: Performance, make: Callable[[Stage], Any], wanted: list[int]
) -> None:
    name = f"streams-{make.__name__}".replace("_", "-")
    perform(name, partial(configuring, make=make, wanted=wanted))


@scene
def streams_broken_topologies(stage: Stage) -> None:
    """Topologies that contradict themselves."""
    name = stage.topic("t", 2)
    a, b = stage.name("a"), stage.name("b")
    loop = topology(
        subtopology(id_="0", repartition={a: 0}, sinks=[b]),
        subtopology(id_="1", repartition={b: 0}, sinks=[a]),
    )
    join(stage, stage.name("g1"), "a", loop, error=E.STREAMS_INVALID_TOPOLOGY)
    orphan = topology(subtopology(name, repartition={a: 0}))
    join(stage, stage.name("g2"), "a", orphan, error=E.STREAMS_INVALID_TOPOLOGY)
    places = topology(subtopology(name, copartition=[([7], [])]))
    join(stage, stage.name("g3"), "a", places, error=E.UNKNOWN_SERVER_ERROR)
    negative = topology(subtopology(name, repartition={a: -3}))
    join(stage, stage.name("g4"), "a", negative, error=E.UNKNOWN_SERVER_ERROR)
    for number in range(1, 5):
        describe(stage, stage.name(f"g{number}"), error=E.GROUP_ID_NOT_FOUND)


@scene
def streams_static_members(stage: Stage) -> None:
    """A static member leaves for a while and comes back under another id."""
    name, group = stage.topic("t", 2), stage.name("g")
    sent = topology(subtopology(name))
    mine: dict[str, Any] = {"instance_id": "i"}
    join(stage, group, "a", sent, process_id="p", **mine)
    join(stage, group, "b", sent, process_id="p", error=E.UNRELEASED_INSTANCE_ID, **mine)
    join(stage, group, "a", sent, process_id="p", error=E.UNRELEASED_INSTANCE_ID, **mine)
    beat(stage, group, "b", 2, error=E.FENCED_INSTANCE_ID, **mine)
    beat(stage, group, "a", 2, instance_id="j", error=E.UNKNOWN_MEMBER_ID)
    beat(stage, group, "b", -2, error=E.FENCED_INSTANCE_ID, **mine)
    beat(stage, group, "a", 2, **mine)
    beat(stage, group, "a", -2, **mine)
    describe(stage, group)
    join(stage, group, "b", sent, process_id="p", **mine)
    describe(stage, group)
    beat(stage, group, "a", 2, error=E.FENCED_INSTANCE_ID, **mine)
    beat(stage, group, "b", -2, **mine)
    join(stage, group, "c", sent, process_id="q", **mine)
    describe(stage, group)
    beat(stage, group, "c", -1, **mine)
    describe(stage, group)


@scene
def streams_statuses(stage: Stage) -> None:
    """An older topology, a shutdown, missing tags."""
    name, group = stage.topic("t", 2), stage.name("g")
    set_group_config(stage, group, {"streams.rack.aware.assignment.tags": "zone,rack"})
    zone = [KeyValue(key="zone", value="z")]
    answer = join(stage, group, "a", topology(subtopology(name), epoch=5), client_tags=zone)
    stage.require("statuses", statuses(answer), [6])
    answer = join(stage, group, "b", topology(subtopology(name), epoch=4), version=0)
    stage.require("statuses", statuses(answer), [0])
    answer = beat(stage, group, "b", 3, shutdown_application=True, version=0)
    stage.require("statuses", statuses(answer), [0, 4])
    rest = [*zone, KeyValue(key="rack", value="r")]
    answer = beat(stage, group, "a", 2, client_tags=rest)
    stage.require("statuses", statuses(answer), [4])
    beat(stage, group, "b", -1)
    beat(stage, group, "a", -1)
    answer = join(stage, group, "c", topology(subtopology(name), epoch=5), client_tags=rest)
    stage.require("statuses", statuses(answer), [])
    describe(stage, group)
    beat(stage, group, "c", -1, shutdown_application=True)


@scene
def streams_standbys(stage: Stage) -> None:
    """Copies of state, in other processes, as the config of the group says."""
    name, changelog, group = stage.topic("t", 2), stage.topic("c", 2), stage.name("g")
    sent = topology(subtopology(name, changelogs=[changelog]))
    offsets = [TaskOffset(subtopology_id="0", partition=0, offset=7)]
    join(stage, group, "a", sent)
    join(stage, group, "b", sent, task_offsets=offsets, task_end_offsets=offsets)
    beat(stage, group, "a", 2, owned=({"0": [0, 1]}, {}))
    beat(stage, group, "a", 2, owned=({"0": [0]}, {}))
    beat(stage, group, "b", 3, owned=({}, {}))
    describe(stage, group)
    set_group_config(stage, group, {"streams.num.standby.replicas": "1"})
    for _ in range(2):
        for one in "ab":
            request = StreamsGroupDescribeRequest(group_ids=[group])
            (found,) = stage.side.request(request, LATEST).groups
            epoch = next(m.member_epoch for m in found.members if m.member_id == one)
            beat(stage, group, one, epoch)
        describe(stage, group)
    twice = [*offsets, *offsets]
    beat(stage, group, "a", 4, task_offsets=twice, error=INVALID)
    for one in "ab":
        beat(stage, group, one, -1)


@scene
def streams_endpoints(stage: Stage) -> None:
    """Where data can be queried, as the epochs of endpoints tell it."""
    name, group = stage.topic("t", 4), stage.name("g")
    sent = topology(subtopology(name))
    here, there = Endpoint(host="here", port=1), Endpoint(host="there", port=65_535)
    join(stage, group, "a", sent, user_endpoint=here)
    beat(stage, group, "a", 2)
    join(stage, group, "b", sent, user_endpoint=there)
    beat(stage, group, "a", 2, owned=({"0": [0, 1, 2, 3]}, {}), endpoint_information_epoch=0)
    beat(stage, group, "a", 2, endpoint_information_epoch=2)
    beat(stage, group, "b", 3, endpoint_information_epoch=1)
    beat(stage, group, "b", 3, endpoint_information_epoch=99)
    beat(stage, group, "b", 3, endpoint_information_epoch=-1)
    beat(stage, group, "a", -1)
    beat(stage, group, "b", -1)


@scene
def streams_offsets(stage: Stage) -> None:
    """Commits and fetches by member epochs."""
    name, group = stage.topic("t", 4), stage.name("g")
    other = stage.topic("u", 4)
    sent = topology(subtopology(name))
    join(stage, group, "a", sent)
    join(stage, group, "b", sent)

    def commit(
        member: str, epoch: int, number: int, error: int = 0, *, version: int = 9, of: str = name
    ) -> None:
        partition = OffsetCommitRequestPartition(partition_index=number, committed_offset=1)
        topics = [OffsetCommitRequestTopic(name=of, partitions=[partition])]
        request = OffsetCommitRequest(
            group_id=group, member_id=member, generation_id_or_member_epoch=epoch, topics=topics
        )
        stage.ask(request, version, error=error)

    def fetch(member: str | None, epoch: int, error: int = 0) -> None:
        topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[0])]
        wanted = OffsetFetchRequestGroup(
            group_id=group, member_id=member, member_epoch=epoch, topics=topics
        )
        stage.ask(OffsetFetchRequest(groups=[wanted]), 9, error=error)

    commit("a", 2, 3)
    answer = beat(stage, group, "a", 2, owned=({"0": [0, 1, 2, 3]}, {}))
    kept = active_of(answer) or {}
    gone = next(one for one in range(4) if one not in kept["0"])
    commit("a", 2, gone)
    beat(stage, group, "a", 2, owned=(kept, {}))
    commit("a", 3, kept["0"][0])
    commit("a", 2, kept["0"][0])
    commit("a", 1, kept["0"][0], E.STALE_MEMBER_EPOCH)
    commit("a", 2, gone, E.STALE_MEMBER_EPOCH)
    commit("a", 2, 0, E.STALE_MEMBER_EPOCH, of=other)
    commit("a", 3, 0, of=other)
    commit("a", 4, 0, E.STALE_MEMBER_EPOCH)
    commit("a", 3, 0, E.UNSUPPORTED_VERSION, version=8)
    commit("c", 3, 0, E.UNKNOWN_MEMBER_ID)
    commit("", -1, 0, E.UNKNOWN_MEMBER_ID)
    fetch(None, -1)
    fetch("a", 3)
    fetch("a", 2, E.STALE_MEMBER_EPOCH)
    fetch("c", 3, E.UNKNOWN_MEMBER_ID)
    beat(stage, group, "a", -1)
    beat(stage, group, "b", -1)
    commit("", -1, 0)


@scene
def streams_lists(stage: Stage) -> None:
    """Listings by type and state, and descriptions of what is no streams group."""
    name, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, "a", topology(subtopology(name)))

    for states in ([], ["Stable"], ["stable"], ["Empty"], ["NotReady"]):
        for types in ([], ["streams"], ["STREAMS"], ["classic"]):
            list_groups(stage, group, states=states, types=types)
    describe(stage, "", error=E.INVALID_GROUP_ID)
    describe(stage, stage.name("unknown"), error=E.GROUP_ID_NOT_FOUND)
    missing = stage.name("h")
    join(stage, missing, "a", topology(subtopology(stage.name("missing"))))
    for state in ("not_ready", "NOT_READY"):  # what ours lists by its own name, too
        list_groups(stage, missing, states=[state])
    request = StreamsGroupTopologyDescriptionUpdateRequest(group_id=group, member_id="a")
    stage.ask(request, 0, error=E.UNSUPPORTED_VERSION)
    beat(stage, group, "a", -1)
    beat(stage, missing, "a", -1)


@pytest.mark.parametrize("name", scene)
def test_a_scene_is_answered_alike(perform: Performance, name: str) -> None:
    perform(name, scene[name])
