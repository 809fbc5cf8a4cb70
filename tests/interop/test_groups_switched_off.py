"""What members of the newer groups are told where a broker has the classic protocol alone.

Every case runs against both brokers. There is no text in the answers: clients have their own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.client.connection import Connection
from fencepost.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from fencepost.wire.api.streams_group_describe import StreamsGroupDescribeRequest
from fencepost.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from fencepost.wire.api.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message

from ..waiting import DEADLINE_MS
from .conftest import one_node
from .maven import JarSet

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CLASSIC_ALONE = {"group.coordinator.rebalance.protocols": "classic"}
REQUESTS = [
    ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0),
    StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0),
    StreamsGroupTopologyDescriptionUpdateRequest(group_id="g", member_id="m"),
]


@pytest.fixture(scope="module", params=["fencepost", "apache"])
def classic_broker(
    request: pytest.FixtureRequest, kafka_jars: JarSet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection]:
    """A connection to a broker of the kind that serves no newer groups."""
    directory = tmp_path_factory.mktemp(request.param)
    with one_node(request.param, directory, **CLASSIC_ALONE) as servers:
        host, _, port = servers.rpartition(":")
        with Connection(host, int(port), timeout_ms=DEADLINE_MS) as connection:
            yield connection


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: type(one).__name__)
def test_members_are_refused_without_a_text(classic_broker: Connection, request_: Message):
    answer = classic_broker.request(request_)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.error_message is None


def test_groups_are_described_by_that_error(classic_broker: Connection):
    answer = classic_broker.request(StreamsGroupDescribeRequest(group_ids=["g", "h"]))
    told = [(one.group_id, one.error_code, one.error_message) for one in answer.groups]
    off = ErrorCode.UNSUPPORTED_VERSION
    assert told == [("g", off, None), ("h", off, None)]
