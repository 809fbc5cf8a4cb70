"""ListConfigResources (key 74) v0-1: what has configs, or can have some (KIP-1142).

Listed are the groups that have configs, which need not exist; all brokers, as such and as broker
loggers, fenced ones too, as Kafka does; and all topics. v0 asks for client metrics alone, which are
not offered, so there are none. A type that does not exist is UNSUPPORTED_VERSION, and then nothing
is listed.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from fencepost.broker.cluster.cluster_view import live_brokers
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.net.registry import handles
from fencepost.machines.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
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
TYPES: Final = frozenset(
    {
        RESOURCE_GROUP,
        RESOURCE_CLIENT_METRICS,
        RESOURCE_BROKER_LOGGER,
        RESOURCE_BROKER,
        RESOURCE_TOPIC,
    }
)
NAMES_PER_PIECE: Final = 1000


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
    wanted = {RESOURCE_CLIENT_METRICS}
    if context.api_version >= TYPES_FROM:
        wanted = set(request.resource_types) or set(TYPES)
    if wanted - TYPES:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = metadata.image
    listed = []
    if RESOURCE_GROUP in wanted:
        for number, (kind, name) in enumerate(image.configs):
            if number % NAMES_PER_PIECE == NAMES_PER_PIECE - 1:
                yield
            if kind == RESOURCE_GROUP:
                listed.append(ConfigResource(resource_name=name, resource_type=kind))
    listed += [
        ConfigResource(resource_name=str(broker.broker_id), resource_type=kind)
        for kind in (RESOURCE_BROKER_LOGGER, RESOURCE_BROKER)
        if kind in wanted
        for broker, _ in live_brokers(image, context.listener_name, include_fenced=True)
    ]
    if RESOURCE_TOPIC in wanted:
        for number, name in enumerate(image.topics_by_name):
            if number % NAMES_PER_PIECE == NAMES_PER_PIECE - 1:
                yield
            listed.append(ConfigResource(resource_name=name, resource_type=RESOURCE_TOPIC))
    return ListConfigResourcesResponse(config_resources=listed)
