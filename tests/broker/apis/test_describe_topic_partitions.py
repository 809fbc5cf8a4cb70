"""DescribeTopicPartitions: pages, cursors, and what is told of a partition."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.wire.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.metadata import FeatureLevelRecord, PartitionChangeRecord

from .harness import StillNode, ask, broker, register, topic

register("describe_topic_partitions")


def a_node(limit: int = 2000) -> StillNode:
    config = BrokerConfig.load(None, {"max.request.partition.size.limit": str(limit)})
    return StillNode(config).learn(
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        broker(1),
        broker(2, listeners=["OTHER"]),
        *topic("a", {"replicas": [1, 2]}, {"replicas": [2, 1]}, {}),
        *topic("b", {}),
        *topic("c", {}, {}),
    )


def page(
    node: StillNode,
    *names: str,
    limit: int = 2000,
    cursor: tuple[str, int] | None = None,
) -> tuple[list[Any], tuple[str, int] | None]:
    """(topic, error, partitions) of each topic of a page, and the next cursor."""
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor and Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    reply = ask(node, request)
    after = reply.next_cursor
    topics = [
        (one.name, one.error_code, [p.partition_index for p in one.partitions])
        for one in reply.topics
    ]
    return topics, after and (after.topic_name, after.partition_index)


ALL = [("a", 0, [0, 1, 2]), ("b", 0, [0]), ("c", 0, [0, 1])]


def test_all_topics_by_name() -> None:
    assert page(a_node()) == (ALL, None)
    assert page(a_node(), "c", "a", "c") == ([ALL[0], ALL[2]], None)


@pytest.mark.parametrize("limit", [-1, 0, 1, 2, 3, 4, 5, 6, 7])
def test_pages_follow_each_other_without_gap_or_repetition(limit: int) -> None:
    node = a_node()
    seen: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(9):
        topics, cursor = page(node, limit=limit, cursor=cursor)
        found = [(name, index) for name, _, indexes in topics for index in indexes]
        assert 0 < len(found) <= max(limit, 1)
        seen += found
        if cursor is None:
            break
    assert seen == [(name, index) for name, _, indexes in ALL for index in indexes]


def test_the_brokers_own_limit() -> None:
    assert page(a_node(limit=2)) == ([("a", 0, [0, 1])], ("a", 2))
    assert page(a_node(limit=3)) == ([("a", 0, [0, 1, 2])], ("b", 0))


def test_a_cursor_whose_topic_or_partition_is_gone() -> None:
    assert page(a_node(), cursor=("aa", 1)) == (ALL[1:], None)
    assert page(a_node(), cursor=("b", 7)) == ([("b", 0, []), ALL[2]], None)


@pytest.mark.parametrize("cursor", [("b", -1), ("d", 0), ("c", 0)])
def test_a_cursor_that_makes_no_sense(cursor: tuple[str, int]) -> None:
    error = int(ErrorCode.INVALID_REQUEST)
    assert page(a_node(), "a", "b", cursor=cursor) == ([("a", error, []), ("b", error, [])], None)
    twice = [("b", error, []), ("a", error, []), ("b", error, [])]
    assert page(a_node(), "b", "a", "b", cursor=cursor) == (twice, None)


def test_topics_that_are_not_there() -> None:
    unknown, illegal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    assert page(a_node(), "a", "nope", "no/pe") == (
        [ALL[0], ("no/pe", illegal, []), ("nope", unknown, [])],
        None,
    )


def test_what_the_client_may_do_with_topics_that_are_not_there() -> None:
    topics = [TopicRequest(name=name) for name in ("a", "no/pe", "nope")]
    reply = ask(a_node(), DescribeTopicPartitionsRequest(topics=topics))
    assert [one.topic_authorized_operations for one in reply.topics] == [3576] * 3


def test_what_is_told_of_a_partition() -> None:
    node = a_node()
    topic_id = node.image.topics_by_name["a"].topic_id
    node.learn(
        PartitionChangeRecord(
            topic_id=topic_id,
            partition_id=0,
            isr=[1],
            eligible_leader_replicas=[2],
            last_known_elr=[1],
        )
    )
    reply = ask(node, DescribeTopicPartitionsRequest(topics=[TopicRequest(name="a")]))
    [told] = reply.topics
    assert (told.topic_id, told.is_internal) == (topic_id, False)
    assert told.topic_authorized_operations > 0
    first, elsewhere, _ = told.partitions
    assert (first.leader_id, first.replica_nodes, first.isr_nodes) == (1, [1, 2], [1])
    assert (first.eligible_leader_replicas, first.last_known_elr) == ([2], [1])
    assert first.offline_replicas == [2], "it has no such listener"
    assert (elsewhere.error_code, elsewhere.leader_id) == (0, -1)
