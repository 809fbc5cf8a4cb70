"""DescribeProducers (key 61) v0: the producers a replica of a partition remembers (KIP-664).

Followers answer, too, for a tool may ask a broker of its choice. A topic that the client may not
read is 29, whether it exists or not. A name that no topic can have is
17 and an unknown topic 3, both with a text; then 3 for an unknown partition, 56 for an offline
directory, 6 where there is no replica. Producers come sorted by id.

Deviation: a partition that is named twice is answered once, and topics named twice are taken
together: a partition can have a hundred thousand producers.
"""

from __future__ import annotations

from collections.abc import Generator

from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.net.registry import handles
from fencepost.log.names import invalid_topic_reason
from fencepost.machines.controller.topics import NOT_HOSTED
from fencepost.machines.image import ClusterImage
from fencepost.runtime.requests.access import PartitionAccess
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import READ_TOPIC
from fencepost.wire.api.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from fencepost.wire.errors import ErrorCode


@handles(DescribeProducersRequest)
def handle(
    context: RequestContext,
    request: DescribeProducersRequest,
    *,
    metadata: MetadataCache,
    partitions: PartitionAccess,
) -> Generator[None, None, DescribeProducersResponse]:
    """Describe the producers of every partition of the request, in its order, each once."""
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    topics = []
    for name, indexes in wanted.items():
        described = []
        for index in indexes:
            described.append(_describe(context, metadata.image, partitions, name, index))
            yield
        topics.append(TopicResponse(name=name, partitions=described))
    return DescribeProducersResponse(topics=topics)


def _describe(
    context: RequestContext,
    image: ClusterImage,
    partitions: PartitionAccess,
    topic: str,
    index: int,
) -> PartitionResponse:
    if refusal := partitions.topic_refusal(context, READ_TOPIC, topic):
        return _failed(index, refusal)
    reason = invalid_topic_reason(topic)
    if reason is not None:
        return _failed(index, ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if topic not in image.topics_by_name:
        return _failed(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HOSTED)
    hosted = partitions.find(context, READ_TOPIC, topic, index)
    if isinstance(hosted, ErrorCode):
        return _failed(index, hosted)
    if hosted.machine.is_offline:
        return _failed(index, ErrorCode.KAFKA_STORAGE_ERROR)
    states = sorted(hosted.log.producers.active(), key=lambda state: state.producer_id)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=state.producer_id,
                producer_epoch=state.producer_epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.last_timestamp_ms,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=state.current_txn_first_offset,
            )
            for state in states
        ],
    )


def _failed(index: int, error: ErrorCode, message: str | None = None) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=int(error), error_message=message)
