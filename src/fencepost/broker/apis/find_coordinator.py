"""FindCoordinator (key 10) v0-6: which broker coordinates a group, or a transactional id.

The first request has the topic created that groups (`__consumer_offsets`), transactional ids
(`__transaction_state`) or share partitions (`__share_group_state`) live in, and is not answered
later for that. COORDINATOR_NOT_AVAILABLE means: ask again, there is no such topic yet, or the
partition has no leader that this client can reach. v4 and later ask for several keys at once. A
client is told of groups and transactional ids that it may describe.

From v6 on brokers (CLUSTER_ACTION) ask for share partitions, as `group:topic id:partition`, where
the group's id may have colons of its own (KIP-932). Of another form, or before v6, a key is
INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.cluster.topic_creation import AutoTopicCreation
from fencepost.broker.net.registry import handles
from fencepost.machines.image import ClusterImage
from fencepost.machines.share.state_batch import parse_share_partition_key
from fencepost.runtime.groups import GroupCoordinators
from fencepost.runtime.requests.access import Access
from fencepost.runtime.requests.context import Pieces, RequestContext
from fencepost.runtime.requests.leader_hints import endpoint_of
from fencepost.runtime.requests.permissions import (
    CLUSTER_ACTION,
    DESCRIBE_GROUP,
    DESCRIBE_TRANSACTIONAL_ID,
    Permission,
)
from fencepost.runtime.share_states import ShareStateCoordinators
from fencepost.runtime.transactions import TransactionCoordinators
from fencepost.wire.api.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from fencepost.wire.errors import ErrorCode

BATCHED_FROM: Final = 4
SHARE_GROUPS_FROM: Final = 6
GROUP_KEY_TYPE: Final = 0
TRANSACTION_KEY_TYPE: Final = 1
SHARE_KEY_TYPE: Final = 2
NO_SHARE_KEY: Final = "a share partition's key is groupId:topicId:partition, asked for from v6 on"
NO_KEY_TYPE: Final = "coordinators are of groups, transactional ids and share partitions"


class _Found(NamedTuple):
    """A coordinator, or why there is none."""

    error_code: ErrorCode
    error_message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1


@handles(FindCoordinatorRequest)
def handle(
    context: RequestContext,
    request: FindCoordinatorRequest,
    *,
    access: Access,
    metadata: MetadataCache,
    groups: GroupCoordinators,
    transactions: TransactionCoordinators,
    states: ShareStateCoordinators,
    topic_creation: AutoTopicCreation,
) -> Pieces:
    """Say who coordinates; have the topic that it takes created if there is none."""
    batched = context.api_version >= BATCHED_FROM
    keys = request.coordinator_keys if batched else [request.key]
    host: GroupCoordinators | TransactionCoordinators | ShareStateCoordinators
    if request.key_type == GROUP_KEY_TYPE:
        host, permission = groups, DESCRIBE_GROUP
    elif request.key_type == TRANSACTION_KEY_TYPE:
        host, permission = transactions, DESCRIBE_TRANSACTIONAL_ID
    elif request.key_type == SHARE_KEY_TYPE:
        host, permission = states, CLUSTER_ACTION
    else:
        return _response(
            context, keys, [_Found(ErrorCode.INVALID_REQUEST, NO_KEY_TYPE)] * len(keys)
        )
    is_missing = host.topic not in metadata.image.topics_by_name
    found = []
    for key in keys:
        if refusal := _refusal(access, context, permission, key):
            found.append(refusal)
        elif is_missing:
            found.append(_no_topic(host.topic))
        else:
            partition = host.partition_of(key)
            found.append(_find(metadata.image, host.topic, partition, context.listener_name))
        yield None
    if is_missing and any(one.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE for one in found):
        topic_creation.create([host.topic])
    return _response(context, keys, found)


def _refusal(
    access: Access, context: RequestContext, permission: Permission, key: str
) -> _Found | None:
    """Why the client does not get the coordinator of the key; None if it does."""
    if permission is not CLUSTER_ACTION:
        refusal = access.refusal(context, permission, key)
        return _Found(refusal) if refusal else None
    if context.api_version < SHARE_GROUPS_FROM:
        return _Found(ErrorCode.INVALID_REQUEST, NO_SHARE_KEY)
    if refusal := access.refusal(context, permission):
        return _Found(refusal)
    if parse_share_partition_key(key) is None:
        return _Found(ErrorCode.INVALID_REQUEST, NO_SHARE_KEY)
    return None


def _find(
    image: ClusterImage, topic_name: str, partition: int | None, listener_name: str
) -> _Found:
    topic = image.topics_by_name.get(topic_name)
    if partition is None or topic is None:
        return _no_topic(topic_name)
    leader = topic.partitions[partition].leader
    broker = image.brokers.get(leader)
    endpoint = endpoint_of(broker, listener_name)
    if broker is None or broker.fenced or endpoint is None:
        return _not_available(f"{topic_name}-{partition} has no leader at the moment")
    return _Found(ErrorCode.NONE, None, leader, endpoint.host, endpoint.port)


def _no_topic(name: str) -> _Found:
    return _not_available(f"{name} does not exist yet")


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
