"""Texts that are not UTF-8, at Apache Kafka and here: both serve what they name."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.wire.api import (
    DescribeGroupsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
    join_group,
)
from fencepost.wire.api.fetch import FetchPartition, FetchTopic
from fencepost.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from fencepost.wire.api.metadata import MetadataRequestTopic
from fencepost.wire.api.produce import PartitionProduceData, TopicProduceData
from fencepost.wire.errors import ErrorCode

from ..broker.listener_fixtures import Client
from ..broker.net.test_text_not_utf8 import BAD, SHOWN, ask
from ..broker.topic_requests import batch
from ..waiting import DEADLINE_S, eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def client(bootstrap: str) -> Iterator[Client]:
    host, _, port = bootstrap.rpartition(":")
    with Client(socket.create_connection((host, int(port)), timeout=DEADLINE_S)) as connected:
        yield connected


def test_topics_of_such_a_name_do_not_exist(client: Client) -> None:
    """The client calls itself so, too."""
    (found,) = ask(client, MetadataRequest(topics=[MetadataRequestTopic(name=BAD)]), 9, BAD).topics
    assert (found.name, found.error_code) == (SHOWN, ErrorCode.INVALID_TOPIC_EXCEPTION)
    data = PartitionProduceData(index=0, records=batch(b"a"))
    sent = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=BAD, partition_data=[data])]
    )
    (produced,) = ask(client, sent, 9, BAD).responses
    assert (produced.name, produced.partition_responses[0].error_code) == (SHOWN, UNKNOWN)
    wanted = FetchTopic(topic=BAD, partitions=[FetchPartition(partition=0)])
    (fetched,) = ask(client, FetchRequest(topics=[wanted]), 12, BAD).responses
    assert (fetched.topic, fetched.partitions[0].error_code) == (SHOWN, UNKNOWN)
    asked = ListOffsetsTopic(name=BAD, partitions=[ListOffsetsPartition(timestamp=-1)])
    (listed,) = ask(client, ListOffsetsRequest(topics=[asked]), 7, BAD).topics
    assert (listed.name, listed.partitions[0].error_code) == (SHOWN, UNKNOWN)


def test_groups_of_such_a_name_are_looked_for(client: Client) -> None:
    def described() -> Any:
        found = ask(client, FindCoordinatorRequest(key=BAD), 3, BAD)
        if found.error_code:
            return None
        (group,) = ask(client, DescribeGroupsRequest(groups=[BAD]), 5, BAD).groups
        return None if group.error_code else group

    group = eventually(described, "the coordinator")
    assert (group.group_id, group.group_state) == (SHOWN, "Dead")


def test_a_group_of_such_a_name_begins_at_kafka_alone(
    client: Client, request: pytest.FixtureRequest
) -> None:
    """It would have another name than its member said."""
    is_kafka = "apache" in request.node.callspec.id
    kind = join_group.JoinGroupRequestProtocol(name="range")
    joining = JoinGroupRequest(
        group_id=BAD, protocol_type="consumer", session_timeout_ms=10_000, protocols=[kind]
    )
    expected = ErrorCode.MEMBER_ID_REQUIRED if is_kafka else ErrorCode.INVALID_GROUP_ID
    eventually(lambda: ask(client, joining, 5, BAD).error_code == expected, "the coordinator")
