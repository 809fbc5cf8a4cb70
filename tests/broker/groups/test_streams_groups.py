"""Streams groups on a whole node: permissions, internal topics, descriptions, a restart."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fencepost.runtime.requests.permissions import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    READ_GROUP,
)
from fencepost.wire.api.streams_group_describe import StreamsGroupDescribeRequest
from fencepost.wire.api.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Topology,
)
from fencepost.wire.api.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.frame import encode_request

from ...machines.streams_groups.world import said, subtopology, topology
from ...waiting import eventually
from ..apis.authorizers import Rules
from ..conftest import RunningNode
from ..topic_requests import make_topic
from .group_requests import coordinated

CONFIG = {"group.streams.initial.rebalance.delay.ms": "0"}
CLASSIC_ALONE = {"group.coordinator.rebalance.protocols": "classic"}
MISSING_INTERNAL = 3


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    running = RunningNode(tmp_path_factory.mktemp("streams") / "data", CONFIG)
    with running.connect() as client:
        coordinated(client)
        make_topic(client, 2, "in")
    yield running
    running.close()


@pytest.fixture
def refuse(node: RunningNode) -> Iterator[Any]:
    access = node.node.access

    def replace(*refused: Any) -> None:
        access.authorizer = Rules(*refused)

    yield replace
    access.authorizer = None


def ask(node: RunningNode, request: Any, version: int) -> Any:
    with node.connect() as client:
        return client.ask(request, version)


def joining(group: str, sent: Topology | None = None, **given: Any) -> StreamsGroupHeartbeatRequest:
    fields: dict[str, Any] = {
        "group_id": group,
        "member_id": "a",
        "member_epoch": 0,
        "rebalance_timeout_ms": 10_000,
        "topology": sent or topology(),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "p",
        **given,
    }
    return StreamsGroupHeartbeatRequest(**fields)


def join(node: RunningNode, group: str, sent: Topology | None = None, **given: Any) -> Any:
    return ask(node, joining(group, sent, **given), 1)


def describe(node: RunningNode, *groups: str, version: int = 1, **given: Any) -> list[Any]:
    request = StreamsGroupDescribeRequest(group_ids=list(groups), **given)
    answers: list[Any] = ask(node, request, version).groups
    return answers


def test_a_member_gets_tasks_and_the_group_outlives_the_node(tmp_path: Path) -> None:
    node = RunningNode(tmp_path / "data", CONFIG)
    try:
        with node.connect() as client:
            coordinated(client)
            make_topic(client, 2, "in")
        assert said(join(node, "g").active_tasks) == {"0": [0, 1]}
        (before,) = describe(node, "g")
        node.restart()
        with node.connect() as client:
            coordinated(client)
        (after,) = describe(node, "g")
        assert (before.group_state, after) == ("Stable", before)
        stay = StreamsGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=2)
        answer = ask(node, stay, 1)
        assert (answer.error_code, answer.member_epoch) == (0, 2)
    finally:
        node.close()


def test_permissions_come_before_mistakes(node: RunningNode, refuse: Any) -> None:
    internal = topology(subtopology(sources=["__consumer_offsets"]))
    refuse(READ_GROUP, DESCRIBE_TOPIC)
    answer = join(node, "p", internal, member_id="")
    assert answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    refuse(DESCRIBE_TOPIC)
    assert join(node, "p", internal, member_id="").error_message == (
        "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohibited."
    )
    invalid = join(node, "p", topology(subtopology(sources=["a b", "in"])), member_id="")
    assert invalid.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert invalid.error_message == "Topic names a b are not valid topic names."
    answer = join(node, "p", member_id="")
    assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refuse()
    assert join(node, "p", member_id="").error_code == ErrorCode.INVALID_REQUEST


def test_internal_topics_are_created_as_the_topology_says(node: RunningNode) -> None:
    sent = topology(
        subtopology("0", sinks=["made-r"]),
        subtopology("1", [], repartition={"made-r": 0}, changelogs=["made-c"]),
    )
    changelog = sent.subtopologies[1].state_changelog_topics[0]
    changelog.topic_configs = [KeyValue(key="cleanup.policy", value="compact")]
    answer = join(node, "made", sent)
    assert [one.status_code for one in answer.status] == [MISSING_INTERNAL]
    stay = StreamsGroupHeartbeatRequest(group_id="made", member_id="a", member_epoch=2)

    def has_tasks() -> Any:
        answer = ask(node, stay, 1)
        assert answer.error_code == 0, answer
        stay.member_epoch = answer.member_epoch
        return answer.active_tasks

    assert said(eventually(has_tasks, "tasks")) == {"0": [0, 1], "1": [0, 1]}
    image = node.node.image
    assert {name: len(image.topics_by_name[name].partitions) for name in ("made-r", "made-c")} == {
        "made-r": 2,
        "made-c": 2,
    }
    assert dict(image.configs[2, "made-c"]) == {"cleanup.policy": "compact"}


def test_internal_topics_are_created_with_the_rights_of_the_client(
    node: RunningNode, refuse: Any
) -> None:
    sent = topology(subtopology(changelogs=["denied-c"]))
    refuse(CREATE_CLUSTER, CREATE_TOPIC)
    for epoch in (0, 2):
        given = {} if epoch == 0 else {"topology": None, "member_epoch": 2}
        (status,) = join(node, "denied", sent, **given).status
        assert status.status_detail == (
            "Internal topics are missing: denied-c; Unauthorized to CREATE on topics denied-c."
        )
    assert "denied-c" not in node.node.image.topics_by_name
    for refused in (CREATE_CLUSTER, CREATE_TOPIC):
        refuse(refused)
        name = f"allowed-{refused.resource_type.name}"
        join(node, name, topology(subtopology(changelogs=[name])))
        created = partial(lambda name: name in node.node.image.topics_by_name, name)
        eventually(created, name)


def test_why_an_internal_topic_is_not_created_is_told(node: RunningNode) -> None:
    sent = topology(subtopology(changelogs=["bad-c"]))
    changelog = sent.subtopologies[0].state_changelog_topics[0]
    changelog.topic_configs = [KeyValue(key="no.such.config", value="1")]
    join(node, "bad", sent)
    stay = StreamsGroupHeartbeatRequest(group_id="bad", member_id="a", member_epoch=2)

    def told() -> str:
        (status,) = ask(node, stay, 1).status
        detail: str = status.status_detail
        return detail if "Creation failed" in detail else ""

    detail = eventually(told, "the reason")
    assert detail.startswith("Internal topics are missing: bad-c; Creation failed: bad-c (")
    assert detail.endswith(").")


def test_groups_are_described_to_those_who_may_know_their_topics(
    node: RunningNode, refuse: Any
) -> None:
    """CVE-2026-41115: members' assignments show topics."""
    join(node, "shown")
    shown, missing, empty = describe(node, "shown", "missing", "")
    assert (shown.group_state, shown.error_code) == ("Stable", 0)
    assert shown.authorized_operations == -(1 << 31) and shown.topology_description_status == 0
    assert missing.error_message == "Group missing not found."
    assert empty.error_code == ErrorCode.INVALID_GROUP_ID
    (shown,) = describe(
        node, "shown", include_authorized_operations=True, include_topology_description=True
    )
    assert shown.authorized_operations > 0 and shown.topology_description_status == 1
    assert describe(node) == []
    refuse(DESCRIBE_GROUP)
    (hidden,) = describe(node, "shown")
    assert hidden.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    refuse(DESCRIBE_TOPIC)
    for version in (0, 1):
        (hidden,) = describe(node, "shown", version=version)
        assert hidden.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert hidden.topology is None and hidden.members == []


def test_nothing_asks_for_descriptions_of_topologies(node: RunningNode, refuse: Any) -> None:
    request = StreamsGroupTopologyDescriptionUpdateRequest(group_id="g", member_id="a")
    answer = ask(node, request, 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "no streams group topology description plugin" in answer.error_message
    refuse(READ_GROUP)
    assert ask(node, request, 0).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_text_that_is_not_utf8_is_refused(node: RunningNode) -> None:
    frame = bytes(encode_request(joining("utf8", rack_id="RACK"), 1, 1, "c"))
    broken = frame.replace(b"RACK", b"\xffACK")
    assert broken != frame
    with node.connect() as client:
        client.send_raw(broken)
        assert client.receive(88, 1)[1].error_code == ErrorCode.INVALID_REQUEST


def test_where_the_protocol_is_off_all_of_it_is(tmp_path: Path) -> None:
    node = RunningNode(tmp_path / "data", CLASSIC_ALONE)
    try:
        off = ErrorCode.UNSUPPORTED_VERSION
        answer = join(node, "g")
        assert (answer.error_code, answer.error_message) == (off, None)
        assert [one.error_code for one in describe(node, "g", "h")] == [off, off]
        update = StreamsGroupTopologyDescriptionUpdateRequest(group_id="g", member_id="a")
        refused = ask(node, update, 0)
        assert (refused.error_code, refused.error_message) == (off, None)
    finally:
        node.close()
