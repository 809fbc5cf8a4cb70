"""Managing a cluster: topics, partitions, configs, records, brokers.

Groups are in `groups`; reassignments, elections and log directories in `replicas`; transactions in
`transaction_admin`; ACLs, users, quotas and tokens in what `security_admin` names.

Each is a conversation, which `Admin` carries out blocking and `client.aio.AsyncAdmin` in asyncio:
one request, sent to the broker that can carry it out and retried as `Cluster` retries; a refusal is
a BrokerError with the broker's own words. A request whose answer was lost is sent again, so
creating or deleting may report that it had been done before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fencepost.client import asking
from fencepost.client.cluster_view import ClusterView
from fencepost.client.conversation import Conversation
from fencepost.client.errors import (
    BrokerError,
    ClientError,
    DeadlineExceeded,
    OffsetOutOfRange,
    UnknownTopic,
)
from fencepost.client.faces import blocking
from fencepost.client.groups import GroupAdmin
from fencepost.client.leaders import Answered, Asked, asking_leaders, by_topic
from fencepost.client.metadata import Node, TopicInfo, TopicPartition
from fencepost.client.offsets import LATEST, listing_offsets
from fencepost.client.replicas import ReplicaAdmin
from fencepost.client.retry import Deadline, pausing
from fencepost.client.security_admin import SecurityAdmin
from fencepost.client.transaction_admin import TransactionAdmin
from fencepost.wire.api.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from fencepost.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from fencepost.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from fencepost.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fencepost.wire.api.describe_cluster import DescribeClusterRequest
from fencepost.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from fencepost.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fencepost.wire.api.list_config_resources import ListConfigResourcesRequest
from fencepost.wire.api.unregister_broker import UnregisterBrokerRequest
from fencepost.wire.errors import ErrorCode, is_retriable
from fencepost.wire.types import Uuid

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
GROUP_RESOURCE = 32
BROKER_DEFAULT = -1  # partitions and replication factor as the broker's configuration says

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

STATIC_SOURCE = 4
DEFAULT_SOURCE = 5
CONFIG_SOURCES = {
    0: "unknown",
    1: "topic",
    2: "dynamic broker",
    3: "dynamic default broker",
    4: "static broker",
    5: "default",
    6: "dynamic broker logger",
    7: "client metrics",
    8: "group",
}


def described(resource_type: int, resource_name: str) -> str:
    """Whose configs they are: a topic's, group's or broker's, or (no name) all brokers'."""
    if resource_type == BROKER_RESOURCE:
        return f"broker {resource_name}" if resource_name else "all brokers"
    return f"{'group' if resource_type == GROUP_RESOURCE else 'topic'} {resource_name}"


class CreatedTopic(NamedTuple):
    """A topic just created; -1 and a zero id where an old broker does not tell."""

    name: str
    topic_id: Uuid
    partitions: int
    replication_factor: int


class ConfigEntry(NamedTuple):
    """One effective configuration; `value` is None when sensitive. `is_default` means that it is
    not set anywhere."""

    name: str
    value: str | None
    source: str
    is_default: bool
    read_only: bool
    sensitive: bool


class ConfigChange(NamedTuple):
    """One step of alter_configs; `operation` is SET, DELETE, APPEND or SUBTRACT."""

    name: str
    value: str | None
    operation: int = SET


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The brokers of a cluster; `fenced` ones are registered but serve no client."""

    cluster_id: str
    controller_id: int
    brokers: tuple[Node, ...]
    fenced: frozenset[int]


# -- topics ----------------------------------------------------------------------------------


def listing_topics(
    view: ClusterView[Any], *, include_internal: bool = False
) -> Conversation[list[TopicInfo]]:
    """All topics, by name."""
    described = yield from asking.describe(view)
    infos = [info for info in described if info.error_code == ErrorCode.NONE]
    chosen = [info for info in infos if include_internal or not info.is_internal]
    return sorted(chosen, key=lambda info: info.name)


def describing_topic(
    view: ClusterView[Any], name: str, *, deadline: Deadline | None = None
) -> Conversation[TopicInfo]:
    """A topic as the cluster sees it now. Raises UnknownTopic."""
    view.invalidate([name])
    return (yield from asking.topic(view, name, deadline))


def creating_topic(
    view: ClusterView[Any],
    name: str,
    partitions: int = BROKER_DEFAULT,
    replication_factor: int = BROKER_DEFAULT,
    *,
    configs: Mapping[str, str | None] | None = None,
    assignments: Mapping[int, Sequence[int]] | None = None,
    validate_only: bool = False,
    timeout_ms: int = 30_000,
) -> Conversation[CreatedTopic]:
    """Create a topic, with replicas placed by the controller or as `assignments` (partition
    to broker ids) say. Raises BrokerError, TOPIC_ALREADY_EXISTS among others."""
    topic = CreatableTopic(
        name=name,
        num_partitions=BROKER_DEFAULT if assignments else partitions,
        replication_factor=BROKER_DEFAULT if assignments else replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in sorted((assignments or {}).items())
        ],
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()],
    )
    request = CreateTopicsRequest(
        topics=[topic], timeout_ms=timeout_ms, validate_only=validate_only
    )
    response = yield from asking.request_controller(view, request, _retriable_in("topics"))
    result = _only(response.topics, lambda entry: entry.name == name, "CreateTopics")
    _raise_for(result, f"cannot create topic {name}")
    view.invalidate([name])
    return CreatedTopic(
        name, Uuid(result.topic_id), result.num_partitions, result.replication_factor
    )


def waiting_for_topic(
    view: ClusterView[Any], name: str, *, timeout_ms: float | None = None
) -> Conversation[TopicInfo]:
    """Wait until the cluster knows the topic and every partition has a leader.

    `timeout_ms`: None for the API timeout. Raises DeadlineExceeded."""
    deadline = view.deadline(timeout_ms)
    backoff = view.backoff()
    while True:
        unknown = None
        try:
            info = yield from describing_topic(view, name, deadline=deadline)
            if info.partitions and all(p.leader_id >= 0 for p in info.partitions.values()):
                return info
        except UnknownTopic as error:
            unknown = error  # a broker may hear of a new topic long after the controller
        if not (yield from pausing(backoff, deadline)):
            raise DeadlineExceeded(f"topic {name} is not there with leaders", unknown)


def deleting_topic(
    view: ClusterView[Any], name: str, *, timeout_ms: int = 30_000
) -> Conversation[None]:
    """Delete a topic by name. Raises UnknownTopic when there is none."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=timeout_ms
    )
    response = yield from asking.request_controller(view, request, _retriable_in("responses"))
    result = _only(response.responses, lambda entry: entry.name == name, "DeleteTopics")
    _raise_for(result, f"cannot delete topic {name}")
    view.metadata.forget([name])


def creating_partitions(
    view: ClusterView[Any],
    name: str,
    total: int,
    *,
    assignments: Sequence[Sequence[int]] | None = None,
    validate_only: bool = False,
    timeout_ms: int = 30_000,
) -> Conversation[None]:
    """Grow a topic to `total` partitions; `assignments` place the new ones."""
    placed = None
    if assignments is not None:
        placed = [CreatePartitionsAssignment(broker_ids=list(ids)) for ids in assignments]
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=total, assignments=placed)],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )
    response = yield from asking.request_controller(view, request, _retriable_in("results"))
    result = _only(response.results, lambda entry: entry.name == name, "CreatePartitions")
    _raise_for(result, f"cannot add partitions to topic {name}")
    view.invalidate([name])


# -- configs ---------------------------------------------------------------------------------


def describing_configs(
    view: ClusterView[Any],
    resource_type: int,
    resource_name: str,
    names: Iterable[str] | None = None,
) -> Conversation[list[ConfigEntry]]:
    """Effective configs of a topic, broker or group, by name (None: all of them). A group with
    configs need not exist otherwise (KIP-848)."""
    resource = DescribeConfigsResource(
        resource_type=resource_type,
        resource_name=resource_name,
        configuration_keys=None if names is None else list(names),
    )
    request = DescribeConfigsRequest(resources=[resource])
    response = yield from _asking_about_configs(
        view, request, resource_type, resource_name, "results"
    )
    result = _only(response.results, lambda _: True, "DescribeConfigs")
    _raise_for(result, f"cannot describe configs of {described(resource_type, resource_name)}")
    entries = [
        ConfigEntry(
            entry.name,
            entry.value,
            CONFIG_SOURCES.get(entry.config_source, str(entry.config_source)),
            entry.config_source == DEFAULT_SOURCE,
            entry.read_only,
            entry.is_sensitive,
        )
        for entry in result.configs
    ]
    return sorted(entries)


def altering_configs(
    view: ClusterView[Any],
    resource_type: int,
    resource_name: str,
    changes: Iterable[ConfigChange],
    *,
    validate_only: bool = False,
) -> Conversation[None]:
    """Change some configs of a topic, broker or group and leave the others (KIP-339)."""
    resource = AlterConfigsResource(
        resource_type=resource_type,
        resource_name=resource_name,
        configs=[
            AlterableConfig(name=name, config_operation=operation, value=value)
            for name, value, operation in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    response = yield from _asking_about_configs(
        view, request, resource_type, resource_name, "responses"
    )
    result = _only(response.responses, lambda _: True, "IncrementalAlterConfigs")
    _raise_for(result, f"cannot alter configs of {described(resource_type, resource_name)}")


def listing_config_resources(
    view: ClusterView[Any], resource_type: int = GROUP_RESOURCE
) -> Conversation[list[str]]:
    """The names of resources of a type that have configs of their own, of topics and brokers all
    (KIP-1142). BrokerError CLUSTER_AUTHORIZATION_FAILED and so on."""
    request = ListConfigResourcesRequest(resource_types=[resource_type])
    response = yield from asking.request_any(view, request, lambda r: r.error_code)
    return sorted(
        one.resource_name for one in response.config_resources if one.resource_type == resource_type
    )


def _asking_about_configs(
    view: ClusterView[Any], request: Any, resource_type: int, name: str, results: str
) -> Conversation[Any]:
    """Configs of one broker are its own to tell and to change; others any broker's."""
    error_of = _retriable_in(results)
    if resource_type != BROKER_RESOURCE or not name:
        return (yield from asking.request_controller(view, request, error_of))
    yield from asking.describe(view, [])
    node = view.metadata.nodes.get(int(name)) if name.isdecimal() else None
    if node is None:
        known = sorted(view.metadata.nodes)
        raise ClientError(f"no broker {name!r} in the cluster; there are {known}")
    return (yield from asking.request_node(node, request))


# -- records and brokers ---------------------------------------------------------------------


def deleting_records(
    view: ClusterView[Any], before: Mapping[TopicPartition, int]
) -> Conversation[dict[TopicPartition, int]]:
    """Delete the records before an offset (-1: before the high watermark); returns the
    partitions' new low watermarks. OffsetOutOfRange, naming it, beyond the high watermark."""

    def build(group: dict[TopicPartition, Asked[int]]) -> DeleteRecordsRequest:
        return DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(partition_index=number, offset=asked.question)
                        for number, asked in partitions
                    ],
                )
                for topic, partitions in by_topic(group).items()
            ],
            timeout_ms=view.config.request_timeout_ms,
        )

    def read(response: Any) -> Iterable[Answered[int]]:
        for topic in response.topics:
            for entry in topic.partitions:
                where = TopicPartition(topic.name, entry.partition_index)
                yield Answered(where, entry.error_code, entry.low_watermark)

    try:
        return (yield from asking_leaders(view, before, build, read, what="DeleteRecords"))
    except OffsetOutOfRange as error:
        where = TopicPartition(error.topic or "", error.partition or 0)
        level = "read_uncommitted"  # or it would be the last stable offset
        end = (yield from listing_offsets(view, {where: LATEST}, isolation_level=level))[
            where
        ].offset
        asked = before.get(where, -1)
        text = f"{error.message}: the high watermark is {end}, and {asked} was asked for"
        topic, number = where
        raise OffsetOutOfRange(
            text, host=error.host, topic=topic, partition=number, code=error.code
        ) from None


def unregistering_broker(view: ClusterView[Any], broker_id: int) -> Conversation[None]:
    """Have the cluster forget a broker that will not come back (KIP-631); replicas that are
    assigned to it stay assigned, and a broker that runs registers again. BrokerError,
    BROKER_ID_NOT_REGISTERED among others."""
    response = yield from asking.request_controller(
        view,
        UnregisterBrokerRequest(broker_id=broker_id),
        lambda r: r.error_code if is_retriable(r.error_code) else 0,
    )
    _raise_for(response, f"cannot unregister broker {broker_id}")


def describing_cluster(
    view: ClusterView[Any], *, include_fenced: bool = False
) -> Conversation[ClusterDescription]:
    """The cluster's id, controller and brokers."""
    connection = yield from asking.any_connection(view)
    if DescribeClusterRequest.api_key not in connection.api_versions:
        yield from asking.describe(view, [])
        known = view.metadata
        nodes = tuple(sorted(known.nodes.values()))
        return ClusterDescription(known.cluster_id or "", known.controller_id, nodes, frozenset())
    fenced_known = connection.version_for(DescribeClusterRequest) >= 2
    request = DescribeClusterRequest(include_fenced_brokers=include_fenced and fenced_known)
    response = yield from asking.request_any(view, request, lambda r: r.error_code)
    return ClusterDescription(
        response.cluster_id,
        response.controller_id,
        tuple(sorted(Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers)),
        frozenset(b.broker_id for b in response.brokers if b.is_fenced),
    )


class Admin(GroupAdmin, ReplicaAdmin, TransactionAdmin, SecurityAdmin):
    """Administration through a Cluster, which it does not own."""

    list_topics = blocking(listing_topics)
    describe_topic = blocking(describing_topic)
    create_topic = blocking(creating_topic)
    wait_for_topic = blocking(waiting_for_topic)
    delete_topic = blocking(deleting_topic)
    create_partitions = blocking(creating_partitions)
    describe_configs = blocking(describing_configs)
    alter_configs = blocking(altering_configs)
    delete_records = blocking(deleting_records)
    unregister_broker = blocking(unregistering_broker)
    describe_cluster = blocking(describing_cluster)
    list_config_resources = blocking(listing_config_resources)


def _retriable_in(field: str) -> Any:
    """An `error_of` for responses with one result: its code, if trying again may help."""

    def error_of(response: Any) -> int:
        codes = [entry.error_code for entry in getattr(response, field)]
        return next((code for code in codes if is_retriable(code) and code not in _FINAL), 0)

    return error_of


# Retriable for producers and consumers, but here the plain answer.
_FINAL = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}


def _only(entries: Iterable[Any], wanted: Any, what: str) -> Any:
    found = [entry for entry in entries if wanted(entry)]
    if len(found) != 1:
        raise ClientError(f"{what} was answered with {len(found)} results instead of one")
    return found[0]


def _raise_for(result: Any, what: str) -> None:
    if result.error_code != ErrorCode.NONE:
        text = getattr(result, "error_message", None)
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            text = "no such topic"  # brokers speak of a partition here, or say nothing
        raise BrokerError.of(result.error_code, f"{what}: {text}" if text else what)
