"""ListConfigResources (key 74) v0-1: the topics and brokers, which can have configs (KIP-1142).

Brokers are listed as such and as broker loggers, fenced ones too, as Kafka does. v0 asks for client
metrics alone; they are not offered, nor are configs of groups, so there are none of either. A type
that does not exist is UNSUPPORTED_VERSION, and then nothing is listed.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from fencepost.broker.cluster.cluster_view import live_brokers
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.net.registry import handles
from fencepost.machines.image import RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_TOPIC
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import RequestContext
from fencepost.runtime.requests.permissions import DESCRIBE_CLUSTER_CONFIGS
from fencepost.wire.api.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from fencepost.wire.errors import ErrorCode

TYPES_FROM: Final = 1
"""The version from which a request names types."""
CLIENT_METRICS: Final = 16
GROUP: Final = 32
TYPES: Final = frozenset(
    {GROUP, CLIENT_METRICS, RESOURCE_BROKER_LOGGER, RESOURCE_BROKER, RESOURCE_TOPIC}
)
TOPICS_PER_PIECE: Final = 1000


@handles(ListConfigResourcesRequest)
def handle(
    context: RequestContext,
    request: ListConfigResourcesRequest,
    *,
    access: Access,
    metadata: MetadataCache,
) -> Generator[None, None, ListConfigResourcesResponse]:
    """List what the metadata has of each type."""
    if refusal := access.refusal(context, DESCRIBE_CLUSTER_CONFIGS):
        return ListConfigResourcesResponse(error_code=refusal)
    wanted = {CLIENT_METRICS}
    if context.api_version >= TYPES_FROM:
        wanted = set(request.resource_types) or set(TYPES)
    if wanted - TYPES:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = metadata.image
    listed = [
        ConfigResource(resource_name=str(broker.broker_id), resource_type=kind)
        for kind in (RESOURCE_BROKER_LOGGER, RESOURCE_BROKER)
        if kind in wanted
        for broker, _ in live_brokers(image, context.listener_name, include_fenced=True)
    ]
    if RESOURCE_TOPIC in wanted:
        for number, name in enumerate(image.topics_by_name):
            if number % TOPICS_PER_PIECE == TOPICS_PER_PIECE - 1:
                yield
            listed.append(ConfigResource(resource_name=name, resource_type=RESOURCE_TOPIC))
    return ListConfigResourcesResponse(config_resources=listed)
