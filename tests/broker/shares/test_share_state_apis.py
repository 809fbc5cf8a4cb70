"""The APIs of share coordinators, asked of a whole node by a raw client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.runtime.internal_topics import SHARE_STATE_TOPIC
from fencepost.wire.api.find_coordinator import FindCoordinatorRequest
from fencepost.wire.types import Uuid

from ...waiting import eventually
from ..conftest import RunningNode
from ..listener_fixtures import Client
from ..topic_requests import make_topic
from .share_state_requests import (
    QUICK_SHARES,
    delete,
    initialize,
    read,
    share_coordinated,
    stored,
    summary,
    write,
)

NodeFactory = Callable[..., RunningNode]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    running = RunningNode(tmp_path_factory.mktemp("node") / "data", QUICK_SHARES)
    yield running
    running.close()


def test_a_state_is_written_and_read_until_it_is_deleted(client: Client, topic: Any) -> None:
    share_coordinated(client, topic.topic_id, "one")
    asked = (client, topic.topic_id, "one")
    assert read(*asked).error_code == 42
    assert initialize(*asked, 1, -1).error_code == 0
    assert read(*asked).start_offset == -1
    assert write(*asked, (0, 9, 0, 1), (4, 5, 2, 1), count=2).error_code == 0
    row = read(*asked, leader_epoch=3)
    assert (row.state_epoch, row.start_offset) == (1, 0)
    assert stored(row) == [(0, 3, 0, 1), (4, 5, 2, 1), (6, 9, 0, 1)]
    assert write(*asked, (0, 3, 2, 1), leader_epoch=2).error_code == 74
    assert write(*asked, (0, 3, 2, 1), leader_epoch=3, state_epoch=0).error_code == 124
    told = summary(*asked)
    assert (told.start_offset, told.leader_epoch, told.delivery_complete_count) == (0, 3, 2)
    assert delete(*asked).error_code == 0
    assert delete(*asked).error_code == 0
    assert read(*asked).error_code == 42


def test_a_restart_keeps_the_state(node_factory: NodeFactory) -> None:
    running = node_factory(**QUICK_SHARES)
    with running.connect() as client:
        topic = make_topic(client)
        share_coordinated(client, topic.topic_id, "kept")
        asked = (client, topic.topic_id, "kept")
        assert initialize(*asked, 5, 7).error_code == 0
        assert write(*asked, (7, 8, 4, 2), state_epoch=5, start_offset=7).error_code == 0
    running.restart()
    with running.connect() as client:
        share_coordinated(client, topic.topic_id, "kept")
        row = read(client, topic.topic_id, "kept")
        assert (row.state_epoch, row.start_offset, stored(row)) == (5, 7, [(7, 8, 4, 2)])


def test_the_topic_is_deleted_from_the_front_not_compacted(node: RunningNode) -> None:
    with node.connect() as client:
        topic_id = Uuid(b"no such topic at")
        key = f"any:{topic_id}:0"
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
        eventually(
            lambda: client.ask(request, 6).coordinators[0].error_code == 0, "the share coordinator"
        )
    image = node.node.metadata.image
    configs = image.configs[2, SHARE_STATE_TOPIC]
    assert configs["cleanup.policy"] == "delete"
    assert configs["retention.ms"] == "-1"


@pytest.mark.parametrize(
    "key", ["", "g", "g:0", ":AAAAAAAAAAAAAAAAAAAAAA:0", "g:AAAA:0", "g:AAAAAAAAAAAAAAAAAAAAAA:x"]
)
def test_a_key_of_another_form_is_refused(client: Client, key: str) -> None:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    assert client.ask(request, 6).coordinators[0].error_code == 42


def test_before_version_6_a_share_key_is_refused(client: Client) -> None:
    key = f"g:{Uuid.ZERO}:0"
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    assert client.ask(request, 5).coordinators[0].error_code == 42
