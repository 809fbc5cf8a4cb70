"""FindCoordinator (key 10) v0-6: which broker coordinates a group.

The first request for a group has `__consumer_offsets` created, and is not answered later for that.
COORDINATOR_NOT_AVAILABLE means: ask again, there is no such topic yet, or the partition has no
leader that this client can reach.
v4 and later ask for several keys at once.

Transactions and share groups are not offered. A transactional producer hears
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, the one error that every client takes for final at this point
(librdkafka asks again after INVALID_REQUEST, until it times out); the text says what is meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from fencepost.broker.cluster.cluster_view import endpoint_of
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.cluster.topic_creation import AutoTopicCreation
from fencepost.broker.groups.group_host import GroupHost
from fencepost.broker.net.log_limit import ClientWarnings
from fencepost.broker.net.registry import Pieces, handles
from fencepost.broker.net.request_context import RequestContext
from fencepost.machines.image import ClusterImage
from fencepost.runtime.groups import OFFSETS_TOPIC
from fencepost.wire.api.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from fencepost.wire.errors import ErrorCode

BATCHED_FROM: Final = 4
GROUP_KEY_TYPE: Final = 0
TRANSACTION_KEY_TYPE: Final = 1
NOT_OFFERED: Final = "only coordinators of groups are offered, not of transactions or share groups"
NO_OFFSETS_TOPIC: Final = f"{OFFSETS_TOPIC} does not exist yet"


class _Found(NamedTuple):
    """A coordinator, or why there is none."""

    error_code: ErrorCode
    error_message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1


@handles(FindCoordinatorRequest, versions="0-6")
def handle(
    context: RequestContext,
    request: FindCoordinatorRequest,
    *,
    metadata: MetadataCache,
    group_host: GroupHost,
    topic_creation: AutoTopicCreation,
    warnings: ClientWarnings,
) -> Pieces:
    """Say who coordinates; have the topic that groups live in created if there is none."""
    batched = context.api_version >= BATCHED_FROM
    keys = request.coordinator_keys if batched else [request.key]
    if request.key_type != GROUP_KEY_TYPE:
        return _response(context, keys, [_refuse(context, request.key_type, warnings)] * len(keys))
    if keys and OFFSETS_TOPIC not in metadata.image.topics_by_name:
        topic_creation.create([OFFSETS_TOPIC])
        return _response(context, keys, [_not_available(NO_OFFSETS_TOPIC)] * len(keys))
    found = []
    for key in keys:
        found.append(_find(metadata.image, group_host.partition_of(key), context.listener_name))
        yield None
    return _response(context, keys, found)


def _find(image: ClusterImage, partition: int | None, listener_name: str) -> _Found:
    if partition is None:
        return _not_available(NO_OFFSETS_TOPIC)
    leader = image.topics_by_name[OFFSETS_TOPIC].partitions[partition].leader
    broker = image.brokers.get(leader)
    endpoint = endpoint_of(broker, listener_name)
    if broker is None or broker.fenced or endpoint is None:
        return _not_available(f"{OFFSETS_TOPIC}-{partition} has no leader at the moment")
    return _Found(ErrorCode.NONE, None, leader, endpoint.host, endpoint.port)


def _refuse(context: RequestContext, key_type: int, warnings: ClientWarnings) -> _Found:
    if key_type != TRANSACTION_KEY_TYPE:
        return _Found(ErrorCode.INVALID_REQUEST, NOT_OFFERED)
    warnings.warn(
        context.client_id, context.client_host, "wants transactions, which are not offered"
    )
    return _Found(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NOT_OFFERED)


def _not_available(why: str) -> _Found:
    return _Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, why)


def _response(
    context: RequestContext, keys: Sequence[str], found: Sequence[_Found]
) -> FindCoordinatorResponse:
    if context.api_version < BATCHED_FROM:
        (one,) = found
        return FindCoordinatorResponse(
            error_code=int(one.error_code),
            error_message=one.error_message if context.api_version >= 1 else None,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(
                key=key,
                node_id=one.node_id,
                host=one.host,
                port=one.port,
                error_code=int(one.error_code),
                error_message=one.error_message,
            )
            for key, one in zip(keys, found, strict=True)
        ]
    )
