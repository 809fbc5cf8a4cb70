"""Groups that change their protocol: classic to consumer and back, empty and under way.

What is refused, in the order in which the coordinator checks it, and what each kind of member hears
while both are in one group.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.wire.api.describe_groups import DescribeGroupsRequest
from fencepost.wire.errors import ErrorCode as E

from ...waiting import eventually
from .classic_words import (
    JOIN,
    classic_beat,
    enter,
    form,
    join_group,
    join_request,
    leave,
    subscription,
    sync,
)
from .conftest import Performance
from .consumer_words import assigned, beat, describe, join, states
from .group_words import list_groups
from .offset_words import commit, fetch_offsets
from .stage import Scenes, Stage

pytestmark = [pytest.mark.interop, pytest.mark.slow]

scene = Scenes()
RANGE = {"server_assignor": "range"}


def describe_classic(stage: Stage, group: str, version: int = 6, *, error: int | None = 0) -> Any:
    request = DescribeGroupsRequest(groups=[group])
    return stage.ask(request, version, error=error).groups[0]


def protocols(*topics: str, owned: dict[str, list[int]] | None = None) -> dict[str, bytes]:
    return {"range": subscription(*topics, owned=owned)}


# Other APIs for the wrong type


@scene
def classic_description_of_a_consumer_group(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    join(stage, group, "a", topic)
    for version in (0, 4, 5):
        described = describe_classic(stage, group, version)
        stage.require("state", described.group_state, "Dead")
    describe_classic(stage, group, error=E.GROUP_ID_NOT_FOUND)
    describe_classic(stage, stage.name("none"), error=E.GROUP_ID_NOT_FOUND)
    describe_classic(stage, stage.name("none"), 5)


@scene
def consumer_description_of_a_classic_group(stage: Stage) -> None:
    group = stage.name("g")
    form(stage, group, {})
    describe(stage, group, error=E.GROUP_ID_NOT_FOUND)
    describe(stage, group, error=E.GROUP_ID_NOT_FOUND, version=0)


@scene
def lists_by_type_and_state(stage: Stage) -> None:
    topic = stage.topic("t", 1)
    classic, consumer, empty, offsets = map(stage.name, ("classic", "consumer", "empty", "offsets"))
    form(stage, classic, {})
    join(stage, consumer, "a", topic)
    join(stage, empty, "b", topic)
    beat(stage, empty, "b", -1)
    commit(stage, offsets, topic)
    names = (classic, consumer, empty, offsets)
    for version in range(6):
        list_groups(stage, *names, version=version)
    for types in (["classic"], ["consumer"], ["Consumer"], ["CLASSIC", "consumer"], ["share"]):
        list_groups(stage, *names, types=types)
    for types in (["other"], ["other", "classic"], [""], ["streams"]):
        list_groups(stage, *names, types=types)
    for states_ in (["Stable"], ["stable", "EMPTY"], ["Dead"], ["other"], ["Assigning"]):
        list_groups(stage, *names, states=states_)
        list_groups(stage, *names, states=states_, version=4)
    list_groups(stage, *names, states=["Empty"], types=["consumer"])


@scene
def classic_requests_to_a_consumer_group(stage: Stage) -> None:
    topic, group = stage.topic("t", 1), stage.name("g")
    join(stage, group, "a", topic)
    classic_beat(stage, group, 2, "ghost", error=E.UNKNOWN_MEMBER_ID)
    classic_beat(stage, group, 2, "a", error=E.UNKNOWN_MEMBER_ID)
    sync(stage, group, 2, "ghost", error=E.UNKNOWN_MEMBER_ID)
    sync(stage, group, 2, "a", error=E.UNKNOWN_MEMBER_ID)
    leave(stage, group, "ghost", error=None)
    leave(stage, group, instance_id="i", error=None)
    beat(stage, group, "a", 2)
    leave(stage, group, "a")
    stage.require("states", states(describe(stage, group)), ("Empty", 3, 3, {}))
    classic_beat(stage, group, 2, "a", error=E.UNKNOWN_MEMBER_ID)
    sync(stage, group, 2, "a", error=E.UNKNOWN_MEMBER_ID)
    leave(stage, group, "a", error=None)


# Offline


@scene
def offline_to_consumer_and_back(stage: Stage) -> None:
    """Offsets stay."""
    topic, group = stage.topic("t", 2), stage.name("g")
    joined = form(stage, group, {topic: [0, 1]}, protocols=protocols(topic))
    commit(stage, group, topic, member=joined.member_id, epoch=joined.generation_id, offset=7)
    leave(stage, group, joined.member_id)
    join(stage, group, "a", topic)
    describe(stage, group)
    list_groups(stage, group)
    fetch_offsets(stage, group, topic, member="a", epoch=2)
    beat(stage, group, "a", -1)
    again = form(stage, group, {topic: [0, 1]}, protocols=protocols(topic))
    stage.note("generation", again.generation_id)
    list_groups(stage, group)
    fetch_offsets(stage, group, topic)
    describe(stage, group, error=E.GROUP_ID_NOT_FOUND)


# Online, towards consumer


@scene
def online_upgrade(stage: Stage) -> None:
    """Epochs begin at the generation, and the embedded assignment is what the member has."""
    topic, group = stage.topic("t", 2), stage.name("g")
    joined = form(stage, group, {topic: [0, 1]}, protocols=protocols(topic))
    answer = join(stage, group, "a", topic, **RANGE)
    stage.require("first", (answer.member_epoch, assigned(stage, answer)), (2, {}))
    describe(stage, group)
    list_groups(stage, group)
    classic_beat(stage, group, 1, joined.member_id, error=E.REBALANCE_IN_PROGRESS)
    again = join_group(
        stage,
        group,
        joined.member_id,
        protocols=protocols(topic, owned={topic: [0, 1]}),
    )
    stage.note("generation", again.generation_id)
    sync(stage, group, again.generation_id, joined.member_id)
    describe(stage, group)
    classic_beat(stage, group, again.generation_id, joined.member_id, error=None)
    last = join_group(
        stage, group, joined.member_id, protocols=protocols(topic, owned={topic: [1]})
    )
    sync(stage, group, last.generation_id, joined.member_id)
    describe(stage, group)
    beat(stage, group, "a", 2)
    describe(stage, group)
    classic_beat(stage, group, last.generation_id, joined.member_id)
    commit(stage, group, topic, 0, member=joined.member_id, epoch=last.generation_id, version=7)
    commit(stage, group, topic, 0, member=joined.member_id, epoch=9, error=None)
    commit(stage, group, topic, 0, member=joined.member_id, epoch=1, error=None)
    fetch_offsets(stage, group, topic, member=joined.member_id, epoch=9, error=None)
    fetch_offsets(stage, group, topic, member=joined.member_id, epoch=last.generation_id)


@scene
def upgrade_of_a_group_without_the_consumer_protocol(stage: Stage) -> None:
    group = stage.name("g")
    enter(stage, group, protocol_type="connect", protocols={"x": subscription("t")})
    join(stage, group, "a", "t", error=E.GROUP_ID_NOT_FOUND)
    describe_classic(stage, group)


@scene
def upgrade_of_a_group_with_broken_metadata(stage: Stage) -> None:
    """KAFKA-20570, 20662: 69, and the group stays as it is."""
    for number, data in enumerate((b"", b"\0", b"\0\1\0\0", b"\xff\xff", b"\0\1\0\0\0\5x")):
        group = stage.name(f"g{number}")
        joined = enter(stage, group, protocols={"range": data})
        sync(stage, group, 1, joined.member_id, {joined.member_id: b""})
        join(stage, group, "a", "t", error=None)
        describe_classic(stage, group, error=None)


@scene
def upgrade_of_a_group_with_a_broken_assignment(stage: Stage) -> None:
    topic = stage.topic("t", 1)
    for number, data in enumerate((b"", b"\0", b"\0\1\0\0\0\5x")):
        group = stage.name(f"g{number}")
        joined = enter(stage, group, protocols=protocols(topic))
        sync(stage, group, 1, joined.member_id, {joined.member_id: data})
        join(stage, group, "a", topic, error=None)
        describe_classic(stage, group, error=None)


@scene
def upgrade_while_members_join(stage: Stage) -> None:
    """Pending joins and syncs get REBALANCE_IN_PROGRESS."""
    topic, group = stage.topic("t", 2), stage.name("g")
    joined = form(stage, group, {topic: [0, 1]}, protocols=protocols(topic))
    second = stage.ask(join_request(group, protocols=protocols(topic)), JOIN, by="second")
    waiting = stage.send(
        join_request(group, second.member_id, protocols=protocols(topic)), JOIN, by="second"
    )

    def is_preparing() -> bool:
        answer = stage.connection().request(DescribeGroupsRequest(groups=[group]), 6)
        return answer.groups[0].group_state == "PreparingRebalance"

    eventually(is_preparing, "the second member to wait")
    join(stage, group, "a", topic, **RANGE)
    stage.receive(waiting, by="second", error=E.REBALANCE_IN_PROGRESS)
    describe(stage, group)
    classic_beat(stage, group, 1, joined.member_id, error=E.REBALANCE_IN_PROGRESS)


@scene
def static_classic_member_is_replaced(stage: Stage) -> None:
    """KAFKA-17228: a consumer member with its instance id takes its place."""
    topic, group = stage.topic("t", 2), stage.name("g")
    joined = form(stage, group, {topic: [0, 1]}, protocols=protocols(topic), instance_id="i")
    answer = join(stage, group, "a", topic, instance_id="i", **RANGE)
    stage.note("assigned", assigned(stage, answer))
    describe(stage, group)
    classic_beat(stage, group, 1, joined.member_id, instance_id="i", error=None)


# Mixed groups

FIRST = "!a"
"""A member id before those that the coordinator makes for classic members, so that `range` gives
both brokers' members the same partitions."""


def mixed(stage: Stage, topic: str, group: str) -> Any:
    """A consumer group with a consumer member that has everything."""
    join(stage, group, FIRST, topic, **RANGE)
    return enter(stage, group, protocols=protocols(topic))


@scene
def classic_member_joins_a_consumer_group(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    joined = mixed(stage, topic, group)
    stage.require(
        "joined",
        (joined.generation_id, joined.leader, joined.members, joined.protocol_name),
        (3, "", [], "range"),
    )
    stage.require("skips", joined.skip_assignment, False)
    describe(stage, group)
    describe(stage, group, version=0)
    describe_classic(stage, group, 5)
    sync(stage, group, 3, joined.member_id)
    classic_beat(stage, group, 3, joined.member_id)
    beat(stage, group, FIRST, 2)
    beat(stage, group, FIRST, 2, owned={topic: [0]})
    classic_beat(stage, group, 3, joined.member_id, error=None)
    again = join_group(stage, group, joined.member_id, protocols=protocols(topic, owned={}))
    sync(stage, group, again.generation_id, joined.member_id)
    described = describe(stage, group)
    stage.require("state", described.group_state, "Stable")
    leave(stage, group, joined.member_id)
    described = describe(stage, group)
    stage.require("members", [one.member_id for one in described.members], [FIRST])


@scene
def syncs_in_a_mixed_group(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    joined = mixed(stage, topic, group)
    member = joined.member_id
    sync(stage, group, 3, "ghost", error=E.UNKNOWN_MEMBER_ID)
    sync(stage, group, 2, member, error=E.ILLEGAL_GENERATION)
    sync(stage, group, 4, member, error=E.ILLEGAL_GENERATION)
    sync(stage, group, 3, member, protocol_type="connect", error=E.INCONSISTENT_GROUP_PROTOCOL)
    sync(stage, group, 3, member, protocol_name="sticky", error=E.INCONSISTENT_GROUP_PROTOCOL)
    sync(stage, group, 3, member, instance_id="i", error=None)
    sync(stage, group, 3, FIRST, error=None)
    sync(stage, group, 3, member)
    join(stage, group, "b", topic, **RANGE)
    sync(stage, group, 3, member, error=E.REBALANCE_IN_PROGRESS)
    classic_beat(stage, group, 3, member, error=E.REBALANCE_IN_PROGRESS)
    classic_beat(stage, group, 2, member, error=E.ILLEGAL_GENERATION)
    classic_beat(stage, group, 3, "ghost", error=E.UNKNOWN_MEMBER_ID)
    classic_beat(stage, group, 3, FIRST, error=None)
    classic_beat(stage, group, 3, member, instance_id="i", error=None)


@scene
def joins_that_a_mixed_group_refuses(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, FIRST, topic, **RANGE)
    for said in (
        {"protocol_type": "connect"},
        {"protocols": {}},
        {"protocols": {"range": b""}},
        {"protocols": {"range": b"\0\1\0\0\0\5x"}},
        {"protocols": {"range": b"\xff\xff\0\0"}},
        {"protocols": {"other": subscription(topic)}},
        {"member_id": "ghost"},
        {"session_timeout_ms": 50},
    ):
        member_id = said.pop("member_id", "")
        said.setdefault("protocols", protocols(topic))
        join_group(stage, group, member_id, error=None, **said)
    describe(stage, group)
    joined = enter(stage, group, protocols={"range": subscription(topic), "rr": b""}, error=None)
    stage.note("both", joined.error_code)
    joined = enter(stage, group, protocols={"sticky": subscription(topic)}, error=None)
    stage.note("unlike the others", joined.error_code)


@scene
def static_classic_member_in_a_consumer_group(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, FIRST, topic, **RANGE)
    joined = join_group(stage, group, protocols=protocols(topic), instance_id="i")
    sync(stage, group, joined.generation_id, joined.member_id, instance_id="i")
    again = join_group(stage, group, protocols=protocols(topic), instance_id="i")
    sync(stage, group, again.generation_id, joined.member_id, instance_id="i", error=None)
    sync(stage, group, again.generation_id, again.member_id, instance_id="i", error=None)
    classic_beat(stage, group, again.generation_id, joined.member_id, instance_id="i", error=None)
    join(stage, group, "b", topic, instance_id="i", error=None)
    describe(stage, group)


@scene
def classic_member_replaces_a_static_consumer_member(stage: Stage) -> None:
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, FIRST, topic, **RANGE)
    join(stage, group, "b", topic, instance_id="i", **RANGE)
    joined = join_group(stage, group, protocols=protocols(topic), instance_id="i", error=None)
    stage.note("joined", joined.error_code)
    describe(stage, group)
    beat(stage, group, "b", 3, instance_id="i", error=None)


# Online, towards classic


@scene
def online_downgrade(stage: Stage) -> None:
    """The last consumer member leaves, and the classic one joins again."""
    topic, group = stage.topic("t", 2), stage.name("g")
    joined = mixed(stage, topic, group)
    sync(stage, group, 3, joined.member_id)
    beat(stage, group, FIRST, -1)
    describe(stage, group, error=E.GROUP_ID_NOT_FOUND)
    described = describe_classic(stage, group)
    stage.require("state", described.group_state, "PreparingRebalance")
    list_groups(stage, group)
    classic_beat(stage, group, 3, joined.member_id, error=E.REBALANCE_IN_PROGRESS)
    again = join_group(stage, group, joined.member_id, protocols=protocols(topic))
    stage.note("generation", again.generation_id)
    sync(stage, group, again.generation_id, joined.member_id, {joined.member_id: b""})
    describe_classic(stage, group)


@scene
def downgrade_by_an_administrator(stage: Stage) -> None:
    """KAFKA-18188: LeaveGroup may name a member of the consumer protocol."""
    topic, group = stage.topic("t", 2), stage.name("g")
    joined = mixed(stage, topic, group)
    sync(stage, group, 3, joined.member_id)
    leave(stage, group, FIRST)
    described = describe_classic(stage, group, error=None)
    stage.note("state", described.group_state)


@scene
def downgrade_by_a_static_member(stage: Stage) -> None:
    """KAFKA-19546: the same subscription, so nothing is assigned again."""
    topic, group = stage.topic("t", 2), stage.name("g")
    join(stage, group, FIRST, topic, instance_id="i", **RANGE)
    joined = join_group(stage, group, protocols=protocols(topic), instance_id="i", error=None)
    described = describe_classic(stage, group, error=None)
    stage.note("state", described.group_state)
    sync(stage, group, joined.generation_id, joined.member_id, instance_id="i", error=None)
    classic_beat(stage, group, joined.generation_id, joined.member_id, error=None)


@scene
def downgrade_by_a_static_member_with_other_topics(stage: Stage) -> None:
    topic, other, group = stage.topic("t", 2), stage.topic("u", 2), stage.name("g")
    join(stage, group, FIRST, topic, instance_id="i", **RANGE)
    joined = join_group(stage, group, protocols=protocols(other), instance_id="i", error=None)
    described = describe_classic(stage, group, error=None)
    stage.note("state", (described.group_state, joined.generation_id))
    describe(stage, group, error=None)


@pytest.mark.parametrize("name", scene)
def test_scene(perform: Performance, name: str) -> None:
    perform(name, scene[name])
