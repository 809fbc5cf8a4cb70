"""Metadata (key 3) v0-13: brokers, the controller, and who leads which partition.

Answered from the committed metadata this node has. The rules, by case:

* v0: an empty list is all topics; from v1 null is all and empty is none.
* Ids and null names are only for v12 and later: earlier, the whole request is 42 in every topic.
* If any topic is named by id, all are looked up by id; an unknown id is 100, with a null name.
* A name no topic can have is 17, an unknown one 3, each with what the client may do with a topic
  of that name, if it asks.
* A topic that the client may not describe is left out of all topics, and is 29 if it is asked for:
  by name whether there is such a topic or not, and without its id; by id without its name.
* A partition without leader is 5; with a leader that lacks this listener 72 (5 before v6).
* v0 lists only reachable replicas and gives 9 when some are missing; later versions list all.

Auto-creation: an unknown topic is created with the broker's defaults if `auto.create.topics.enable`
and the client (v4+; before that always) allow it, never when all topics are asked for. The answer
is 3 all the same, as in Kafka: the client finds the topic when it asks again.

Deviations: a topic with neither name nor id is 42 in Kafka's place of -1. The controller is this
broker while it is live; Kafka names any live one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import NamedTuple, TypeVar

from fencepost.broker.cluster.cluster_view import (
    admin_broker_id,
    live_brokers,
    offline_replicas,
    reachable,
)
from fencepost.broker.cluster.encoded_topics import (
    PARTITIONS_AT_ONCE,
    EncodedTopic,
    EncodedTopics,
    TopicKey,
    encode_partitions,
    encode_topic,
    join_response,
    join_topic,
)
from fencepost.broker.cluster.metadata_cache import MetadataCache
from fencepost.broker.cluster.topic_creation import AutoTopicCreation
from fencepost.broker.config.broker_config import BrokerConfig
from fencepost.broker.net.pending_request import PendingRequest
from fencepost.broker.net.registry import handles
from fencepost.log.names import is_valid_topic
from fencepost.machines.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from fencepost.machines.image.acls import ResourceType
from fencepost.runtime.internal_topics import INTERNAL_TOPICS
from fencepost.runtime.requests.access import Access, cluster_operations
from fencepost.runtime.requests.context import Pieces
from fencepost.runtime.requests.leader_hints import endpoint_of
from fencepost.runtime.requests.permissions import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_TOPIC,
    OPERATIONS_NOT_ASKED_FOR,
)
from fencepost.wire.api.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.types import Uuid

T = TypeVar("T")

AUTO_CREATE = "auto.create.topics.enable"
FIRST_VERSION_WITH_IDS = 12
TOPICS_PER_PIECE = 50

TopicInPieces = Generator[None, None, EncodedTopic]


class _Asked(NamedTuple):
    """A request, and what it is answered from."""

    context: PendingRequest
    request: MetadataRequest
    access: Access
    metadata: MetadataCache
    config: BrokerConfig
    encoded: EncodedTopics


@handles(MetadataRequest)
def handle(
    context: PendingRequest,
    request: MetadataRequest,
    *,
    access: Access,
    metadata: MetadataCache,
    config: BrokerConfig,
    encoded_topics: EncodedTopics,
    topic_creation: AutoTopicCreation,
) -> Pieces:
    """Say what there is; have missing topics created."""
    asked = _Asked(context, request, access, metadata, config, encoded_topics)
    topics = request.topics
    if topics is None or (context.api_version == 0 and not topics):
        seen = access.visible(context, DESCRIBE_TOPIC, metadata.image.topics_by_name)
        yield from _answer(asked, _by_name, sorted(seen))
        return None
    if _is_malformed(context.api_version, topics):
        return _refuse(topics)
    ids = dict.fromkeys(topic.topic_id for topic in topics if topic.topic_id != Uuid.ZERO)
    if ids:
        yield from _answer(asked, _by_id, ids)
        return None
    names = list(dict.fromkeys(topic.name for topic in topics if topic.name is not None))
    yield from _answer(asked, _by_name, names)
    topic_creation.create(_names_to_create(asked, names))
    return None


def _answer(
    asked: _Asked, find: Callable[[_Asked, T], TopicInPieces], wanted: Iterable[T]
) -> Pieces:
    """Answer with the topics that `find` finds."""
    found: list[EncodedTopic] = []
    for one in wanted:
        found.append((yield from find(asked, one)))
        if len(found) % TOPICS_PER_PIECE == 0:
            yield None
    version = asked.context.api_version
    errors = [code for topic in found for code in topic.errors]
    body = join_response(_response(asked), found, version)
    asked.context.reply_encoded(MetadataResponse, body, errors)
    return None


def _is_malformed(version: int, topics: Iterable[MetadataRequestTopic]) -> bool:
    if version < FIRST_VERSION_WITH_IDS:
        return any(topic.name is None or topic.topic_id != Uuid.ZERO for topic in topics)
    return any(topic.name is None and topic.topic_id == Uuid.ZERO for topic in topics)


def _refuse(topics: Iterable[MetadataRequestTopic]) -> MetadataResponse:
    """The answer to a malformed request: no brokers, and the error wherever there is room."""
    code = int(ErrorCode.INVALID_REQUEST)
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(name=topic.name or "", topic_id=topic.topic_id, error_code=code)
            for topic in topics
        ],
        error_code=code,
    )


def _names_to_create(asked: _Asked, names: Iterable[str]) -> list[str]:
    if not _creates(asked):
        return []
    known = asked.metadata.image.topics_by_name
    return [
        name
        for name in names
        if name not in known
        and is_valid_topic(name)
        and asked.access.allows(asked.context, DESCRIBE_TOPIC, name)
        and _may_create(asked, name)
    ]


def _may_create(asked: _Asked, name: str) -> bool:
    return asked.access.allows(asked.context, CREATE_CLUSTER, quiet=True) or asked.access.allows(
        asked.context, CREATE_TOPIC, name
    )


def _response(asked: _Asked) -> MetadataResponse:
    """The response without topics."""
    image = asked.metadata.image
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )
            for broker, endpoint in live_brokers(image, asked.context.listener_name)
        ],
        cluster_id=asked.metadata.cluster_id,
        controller_id=admin_broker_id(image, asked.config.node_id),
        cluster_authorized_operations=cluster_operations(
            asked.access,
            asked.context,
            is_asked_for=asked.request.include_cluster_authorized_operations,
        ),
    )


def _by_id(asked: _Asked, topic_id: Uuid) -> TopicInPieces:
    """The topic of that id, or that there is none, or that the client may not see it."""
    error = ErrorCode.UNKNOWN_TOPIC_ID
    topic = asked.metadata.image.topics_by_id.get(topic_id)
    if topic is not None:
        error = asked.access.refusal(asked.context, DESCRIBE_TOPIC, topic.name)
        if not error:
            return (yield from _describe(asked, topic))
    return _missing(asked, MetadataResponseTopic(name=None, topic_id=topic_id), error)


def _by_name(asked: _Asked, name: str) -> TopicInPieces:
    """The topic of that name, or why there is none for the client."""
    error = asked.access.refusal(asked.context, DESCRIBE_TOPIC, name)
    topic = asked.metadata.image.topics_by_name.get(name)
    if topic is not None and not error:
        return (yield from _describe(asked, topic))
    if not error:
        error = _why_unknown(asked, name)
    missing = MetadataResponseTopic(name=name, is_internal=name in INTERNAL_TOPICS)
    if error is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        missing.topic_authorized_operations = _operations(asked, name)
    return _missing(asked, missing, error)


def _why_unknown(asked: _Asked, name: str) -> ErrorCode:
    """The error for a name that no topic has: 29 if it would be created for a client that may
    create topics."""
    if not is_valid_topic(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if _creates(asked) and not _may_create(asked, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _creates(asked: _Asked) -> bool:
    """Whether the broker creates the topics that the request names and that do not exist."""
    return bool(asked.request.allow_auto_topic_creation and asked.config.get(AUTO_CREATE))


def _missing(asked: _Asked, topic: MetadataResponseTopic, error: ErrorCode) -> EncodedTopic:
    topic.error_code = int(error)
    return EncodedTopic(encode_topic(topic, asked.context.api_version), (topic.error_code,))


def _operations(asked: _Asked, name: str) -> int:
    """What the client may do with a topic of that name, if it asks."""
    if not asked.request.include_topic_authorized_operations:
        return OPERATIONS_NOT_ASKED_FOR
    return asked.access.operations(asked.context, ResourceType.TOPIC, name)


def _describe(asked: _Asked, topic: TopicImage) -> TopicInPieces:
    """What there is to say of a topic; what was said of it before, if that still holds."""
    image, version = asked.metadata.image, asked.context.api_version
    listener_name = asked.context.listener_name
    operations = _operations(asked, topic.name)
    key = TopicKey(topic.topic_id, version, listener_name, operations)
    known = asked.encoded.get(key, image, topic)
    if known is not None:
        return known
    errors: list[int] = []
    pieces = []
    for start in range(0, len(topic.partitions), PARTITIONS_AT_ONCE):
        partitions = [
            _partition(image, start + at, partition, listener_name, version)
            for at, partition in enumerate(topic.partitions[start : start + PARTITIONS_AT_ONCE])
        ]
        errors += [one.error_code for one in partitions if one.error_code]
        pieces.append(encode_partitions(partitions, version))
        yield
    described = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
    )
    data = join_topic(described, pieces, len(topic.partitions), version)
    encoded = EncodedTopic(data, tuple(errors))
    asked.encoded.put(key, image, topic, encoded)
    return encoded


def _partition(
    image: ClusterImage, index: int, partition: PartitionImage, listener_name: str, version: int
) -> MetadataResponsePartition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    if version == 0:
        replicas = reachable(image, replicas, listener_name)
        isr = reachable(image, isr, listener_name)
    leader, error = partition.leader, ErrorCode.NONE
    leader_broker = image.brokers.get(leader)
    if leader_broker is None:
        leader, error = NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    elif endpoint_of(leader_broker, listener_name) is None:
        leader = NO_LEADER
        error = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=int(error),
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline_replicas(image, partition, listener_name),
    )
