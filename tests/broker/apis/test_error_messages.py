"""The texts of errors have Kafka's facts in Kafka's shape: programs compare them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.client.connection import Connection
from fencepost.wire.api.create_topics import CreateTopicsRequest
from fencepost.wire.api.describe_cluster import DescribeClusterRequest

from ...error_messages import CASES, TOPICS, Case, check, new_topic
from ...waiting import DEADLINE_S
from ..conftest import RunningNode


@pytest.fixture(scope="module")
def connection(node: RunningNode) -> Iterator[Connection]:
    """To a node with the topics of the table."""
    with Connection("127.0.0.1", node.port, timeout_ms=int(DEADLINE_S * 1000)) as made:
        topics = [new_topic(name, 2) for name in TOPICS]
        for topic, configs in zip(topics, TOPICS.values(), strict=True):
            topic.configs = new_topic(**configs).configs
        answered = made.request(CreateTopicsRequest(topics=topics)).topics
        assert [topic.error_code for topic in answered] == [0] * len(topics)
        yield made


@pytest.fixture(scope="module")
def cluster_id(connection: Connection) -> str:
    return connection.request(DescribeClusterRequest()).cluster_id


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_errors_are_told_as_kafka_tells_them(
    connection: Connection, cluster_id: str, case: Case
) -> None:
    check(case, connection.request(case.request, case.version), cluster_id)
