"""Clients that ask for more than a batch of the metadata log may hold, or one turn of the loop."""

from __future__ import annotations

import pytest

from fencepost.broker import apis
from fencepost.broker.cluster import controller_service
from fencepost.broker.net.registry import ROUTES, WHOLE_REQUEST_ELEMENTS_MAX
from fencepost.wire.api import DescribeGroupsRequest, LeaveGroupRequest
from fencepost.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.leave_group import MemberIdentity
from fencepost.wire.errors import ErrorCode

from ..conftest import RunningNode
from ..listener_fixtures import Client

apis.load_all()


def create(client: Client, *names: str) -> list[int]:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    answer = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)
    return [topic.error_code for topic in answer.topics]


def test_a_request_is_refused_as_a_whole(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_service, "MAX_BATCH_BYTES", 1_000)
    names = [f"large-{n}" for n in range(20)]
    with node.connect() as client:
        assert create(client, *names) == [ErrorCode.POLICY_VIOLATION] * 20
        assert create(client, names[0]) == [0], "it was not there, and this is not too much"
        asked = [DeleteTopicState(name=name) for name in names[:2]]
        request = DeleteTopicsRequest(topics=asked, timeout_ms=60_000)
        codes = {t.name: t.error_code for t in client.ask(request, 6).responses}
        assert codes == {names[0]: 0, names[1]: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def leave_request(count: int) -> LeaveGroupRequest:
    members = [MemberIdentity(member_id=f"m{n}") for n in range(count)]
    return LeaveGroupRequest(group_id="large", members=members)


def test_what_is_decided_in_one_go_has_fewer_elements(node: RunningNode) -> None:
    """What is worked on in pieces may have more."""
    with node.connect() as client:
        groups = [f"g{n}" for n in range(WHOLE_REQUEST_ELEMENTS_MAX + 1)]
        answer = client.ask(DescribeGroupsRequest(groups=groups), 5)
        assert len(answer.groups) == len(groups)
        assert client.ask(leave_request(WHOLE_REQUEST_ELEMENTS_MAX), 5).error_code >= 0
        client.send(leave_request(WHOLE_REQUEST_ELEMENTS_MAX + 1), 5)
        assert client.is_disconnected()


def test_no_handler_of_clients_takes_more_in_one_go() -> None:
    at_once = [route for route in ROUTES.values() if not route.in_pieces]
    assert {"JoinGroup", "SyncGroup", "OffsetCommit", "ListGroups"} <= {r.name for r in at_once}
    # Its topics and partitions become sets, 50,000 at most.
    larger = [r.name for r in at_once if r.max_elements > WHOLE_REQUEST_ELEMENTS_MAX]
    assert larger == ["ConsumerGroupHeartbeat"]
