"""What only brokers know of replicas: who is eligible to lead, and where logs are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.metadata import Node, TopicPartition
from fencepost.client.replicas import PartitionState, describing_log_dirs, describing_partitions
from fencepost.views.log_dirs import LogDirView
from fencepost.views.replication import StoredIn

PARTITIONS_MAX = 2_000
"""Of one DescribeTopicPartitions: `max.request.partition.size.limit` of brokers."""


def viewing_eligible(
    view: ClusterView[Any], partitions: Sequence[TopicPartition]
) -> Conversation[Mapping[TopicPartition, PartitionState]]:
    """Who is eligible to lead those of `partitions` that one request brings. Raises UnsupportedApi
    for brokers before Kafka 3.7, BrokerError for a topic that is gone."""
    names = sorted({where.topic for where in partitions})
    first = min(partitions)
    found = yield from describing_partitions(view, names, first=first, limit=PARTITIONS_MAX)
    return {where: found[where] for where in partitions if where in found}


def viewing_stored(
    view: ClusterView[Any], node: Node, partitions: Sequence[TopicPartition]
) -> Conversation[dict[TopicPartition, StoredIn]]:
    """Where a broker has these replicas: one request. A replica on its way to another directory is
    told of the one that it is in now. ClientError."""
    found: dict[TopicPartition, StoredIn] = {}
    for state in (yield from describing_log_dirs(view, node, partitions)):
        one = LogDirView.of(node.node_id, state)
        for replica in one.replicas:
            if not replica.future:
                where = TopicPartition(replica.topic, replica.partition)
                found[where] = StoredIn(one.path, replica)
    return found
