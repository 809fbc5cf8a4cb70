"""DescribeTopicPartitions (key 75) v0: partitions of topics, a page at a time (KIP-966).

Answered from the committed metadata this node has. Topics come by name, partitions by number. A
page ends after `response_partition_limit` partitions, `max.request.partition.size.limit` at most
and one at least, and the cursor says where the next one begins.

* No topics asked for: all. Then a cursor may name a topic that is gone by now.
* Topics asked for: names before the cursor's are left out, and the cursor's has to be among them.
  If it is not, or its partition is below 0, every topic of the request is 42, as often as it is
  named.
* A topic that the client may not describe is 29 if it is named, after all others, and left out if
  all are asked for.
* A name no topic can have is 17, an unknown one 3; neither counts as a partition, and what the
  client may do with a topic of that name is said all the same.
* A partition without a leader, or whose leader lacks this listener, has leader -1 and no error.
"""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.broker.cluster.cluster_view import (
    offline_replicas,
)
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.net.registry import handles
from fencepost.log.names import is_valid_topic
from fencepost.machines.image import NO_LEADER, ClusterImage, PartitionImage
from fencepost.machines.image.acls import ResourceType
from fencepost.runtime.internal_topics import INTERNAL_TOPICS
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.leader_hints import endpoint_of
from fencepost.runtime.requests.permissions import DESCRIBE_TOPIC
from fencepost.wire.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from fencepost.wire.errors import ErrorCode

LIMIT = "max.request.partition.size.limit"
PARTITIONS_PER_PIECE = 50


@handles(DescribeTopicPartitionsRequest)
def handle(
    context: RequestContext,
    request: DescribeTopicPartitionsRequest,
    *,
    access: Access,
    metadata: MetadataCache,
    config: BrokerConfig,
) -> Pieces:
    """Describe one page."""
    image, cursor = metadata.image, request.cursor
    asked = sorted({topic.name for topic in request.topics})
    if cursor is not None and (
        cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)
    ):
        wrong = ErrorCode.INVALID_REQUEST
        refused = [_without_partitions(topic.name, wrong) for topic in request.topics]
        return DescribeTopicPartitionsResponse(topics=refused)
    names = asked or sorted(image.topics_by_name)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    remaining = max(1, min(config.get(LIMIT), request.response_partition_limit))
    response = DescribeTopicPartitionsResponse()
    seen = list(access.visible(context, DESCRIBE_TOPIC, names))
    for name in seen:
        topic = image.topics_by_name.get(name)
        if remaining == 0:
            response.next_cursor = Cursor(topic_name=name)
            break
        if topic is None:
            response.topics += [_unknown(context, access, name)] if asked else []
            yield None
            continue
        is_first = cursor is not None and cursor.topic_name == name
        first = cursor.partition_index if cursor is not None and is_first else 0
        end = min(first + remaining, len(topic.partitions))
        described = DescribeTopicPartitionsResponseTopic(
            name=name,
            topic_id=topic.topic_id,
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=access.operations(context, ResourceType.TOPIC, name),
        )
        response.topics.append(described)
        yield None
        for index in range(first, end):
            described.partitions.append(
                _partition(image, index, topic.partitions[index], context.listener_name)
            )
            if index % PARTITIONS_PER_PIECE == 0:
                yield None
        remaining -= len(described.partitions)
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    if asked and len(seen) < len(names):
        response.topics += _forbidden(set(names).difference(seen))
    return response


def _forbidden(names: Iterable[str]) -> list[DescribeTopicPartitionsResponseTopic]:
    """Topics that the client has named and may not describe, which may exist or not."""
    error = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return [
        DescribeTopicPartitionsResponseTopic(name=name, error_code=error) for name in sorted(names)
    ]


def _unknown(
    context: RequestContext, access: Access, name: str
) -> DescribeTopicPartitionsResponseTopic:
    """A topic that does not exist, with what the client may do with one of that name."""
    unknown = _without_partitions(name, _why_unknown(name))
    unknown.topic_authorized_operations = access.operations(context, ResourceType.TOPIC, name)
    return unknown


def _why_unknown(name: str) -> ErrorCode:
    if is_valid_topic(name):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.INVALID_TOPIC_EXCEPTION


def _without_partitions(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=name, error_code=int(error), is_internal=name in INTERNAL_TOPICS
    )


def _partition(
    image: ClusterImage, index: int, partition: PartitionImage, listener_name: str
) -> DescribeTopicPartitionsResponsePartition:
    is_reached = endpoint_of(image.brokers.get(partition.leader), listener_name) is not None
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=partition.leader if is_reached else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible_leader_replicas),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(image, partition, listener_name),
    )
