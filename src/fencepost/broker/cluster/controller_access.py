"""What clients need permission for when they ask the controller, and what is left without it.

A request that is about the cluster as a whole is refused as a whole (`WHOLE`). One that names
topics, or resources with configs, loses those that the client has no permission for: they are
refused each, and the controller decides about the others (`permitted_part`). What the request names
twice stays in it, since that is INVALID_REQUEST whatever the client may do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from fencepost.machines.controller.tokens import owner_of
from fencepost.machines.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ClusterImage,
)
from fencepost.machines.image.acls import CLUSTER_NAME
from fencepost.runtime.requests.access import Access, Client
from fencepost.runtime.requests.permissions import (
    ALTER_CLUSTER,
    ALTER_CLUSTER_CONFIGS,
    ALTER_GROUP_CONFIGS,
    ALTER_TOPIC,
    ALTER_TOPIC_CONFIGS,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOKENS,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    Permission,
)
from fencepost.wire.api import alter_configs, incremental_alter_configs
from fencepost.wire.api.add_raft_voter import AddRaftVoterRequest
from fencepost.wire.api.allocate_producer_ids import AllocateProducerIdsRequest
from fencepost.wire.api.alter_client_quotas import AlterClientQuotasRequest
from fencepost.wire.api.alter_partition import AlterPartitionRequest
from fencepost.wire.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from fencepost.wire.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from fencepost.wire.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from fencepost.wire.api.broker_registration import BrokerRegistrationRequest
from fencepost.wire.api.controller_registration import ControllerRegistrationRequest
from fencepost.wire.api.create_acls import CreateAclsRequest
from fencepost.wire.api.create_delegation_token import CreateDelegationTokenRequest
from fencepost.wire.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopicResult,
)
from fencepost.wire.api.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from fencepost.wire.api.delete_acls import DeleteAclsRequest
from fencepost.wire.api.delete_topics import DeletableTopicResult, DeleteTopicsRequest
from fencepost.wire.api.describe_quorum import DescribeQuorumRequest
from fencepost.wire.api.elect_leaders import ElectLeadersRequest
from fencepost.wire.api.expire_delegation_token import ExpireDelegationTokenRequest
from fencepost.wire.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from fencepost.wire.api.remove_raft_voter import RemoveRaftVoterRequest
from fencepost.wire.api.renew_delegation_token import RenewDelegationTokenRequest
from fencepost.wire.api.unregister_broker import UnregisterBrokerRequest
from fencepost.wire.api.unregister_controller import UnregisterControllerRequest
from fencepost.wire.api.update_features import UpdateFeaturesRequest
from fencepost.wire.errors import ErrorCode
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

WHOLE: Final[Mapping[type[Message], Permission]] = {
    AddRaftVoterRequest: ALTER_CLUSTER,
    AlterClientQuotasRequest: ALTER_CLUSTER_CONFIGS,
    AlterPartitionReassignmentsRequest: ALTER_CLUSTER,
    AlterUserScramCredentialsRequest: ALTER_CLUSTER,
    CreateAclsRequest: ALTER_CLUSTER,
    DeleteAclsRequest: ALTER_CLUSTER,
    ElectLeadersRequest: ALTER_CLUSTER,
    RemoveRaftVoterRequest: ALTER_CLUSTER,
    UnregisterBrokerRequest: ALTER_CLUSTER,
    UnregisterControllerRequest: ALTER_CLUSTER,
    UpdateFeaturesRequest: ALTER_CLUSTER,
    DescribeQuorumRequest: DESCRIBE_CLUSTER,
    ListPartitionReassignmentsRequest: DESCRIBE_CLUSTER,
    AllocateProducerIdsRequest: CLUSTER_ACTION,
    AlterPartitionRequest: CLUSTER_ACTION,
    AssignReplicasToDirsRequest: CLUSTER_ACTION,
    BrokerHeartbeatRequest: CLUSTER_ACTION,
    BrokerRegistrationRequest: CLUSTER_ACTION,
    ControllerRegistrationRequest: CLUSTER_ACTION,
}
"""What is refused as a whole without the permission."""

OF_TOKENS: Final = (RenewDelegationTokenRequest, ExpireDelegationTokenRequest)
"""What the controller lets the owner and the renewers of a token do."""

_REFUSED: Final = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


class Permitted(NamedTuple):
    """What a client may ask the controller for, of all that it has asked for."""

    request: Message
    refused: list[tuple[int, Any]]
    """The results of the rows that are not in `request` any more, and where they were."""
    is_empty: bool
    """Whether nothing is left to decide."""

    def complete(self, response: Any) -> Any:
        """The response to `request` becomes that to the whole."""
        rows = _rows_of(self.request, response) if self.refused else []
        for position, result in self.refused:
            rows.insert(position, result)
        return response


class _Asked(NamedTuple):
    """The client of a request, and what is needed to know whether it may send it."""

    access: Access
    client: Client
    image: ClusterImage

    def may(self, permission: Permission, name: str = CLUSTER_NAME) -> bool:
        """Whether the client has the permission."""
        return self.access.allows(self.client, permission, name)


def permitted_part(
    access: Access, client: Client, image: ClusterImage, request: Message
) -> Permitted | ErrorCode:
    """What is left of the request for the controller; or the error that all of it is refused
    with."""
    if access.authorizer is None:
        return Permitted(request, [], is_empty=False)
    if isinstance(request, CreateDelegationTokenRequest):
        error = token_refusal(access, client, request)
        return error or Permitted(request, [], is_empty=False)
    if isinstance(request, OF_TOKENS):  # a token's owner and renewers need no further permission
        return Permitted(request, [], is_empty=False)
    whole = WHOLE.get(type(request))
    if whole is not None:
        error = access.refusal(client, whole)
        return error or Permitted(request, [], is_empty=False)
    return _BY_ROW[type(request)](_Asked(access, client, image), request)


def token_refusal(
    access: Access, client: Client, request: CreateDelegationTokenRequest
) -> ErrorCode:
    """The error for a client that may create no token for that owner: each may for itself."""
    owner = owner_of(request, client.principal)
    if owner.is_same_as(client.principal):
        return ErrorCode.NONE
    return access.refusal(client, CREATE_TOKENS, str(owner))


def without_configs(access: Access, client: Client, response: CreateTopicsResponse) -> None:
    """Take from the answer what the client may not know of the topics that it has created."""
    for topic in response.topics:
        if topic.error_code or access.allows(client, DESCRIBE_TOPIC_CONFIGS, topic.name):
            continue
        topic.topic_config_error_code = _REFUSED
        topic.num_partitions = topic.replication_factor = -1
        topic.configs = []


def _rows_of(request: Message, response: Any) -> list[Any]:
    name = {CreateTopicsRequest: "topics", CreatePartitionsRequest: "results"}
    rows: list[Any] = getattr(response, name.get(type(request), "responses"))
    return rows


def _split(
    rows: Iterable[Any], key: Callable[[Any], object], refuse: Callable[[Any], Any | None]
) -> tuple[list[Any], list[tuple[int, Any]]]:
    """The rows that are left, and the results of those that `refuse` has one for, with their
    positions. A row whose key another has, too, is left."""
    rows = list(rows)
    counts = Counter(map(key, rows))
    left: list[Any] = []
    refused: list[tuple[int, Any]] = []
    for position, row in enumerate(rows):
        result = refuse(row) if counts[key(row)] == 1 else None
        if result is None:
            left.append(row)
        else:
            refused.append((position, result))
    return left, refused


def _create_topics(asked: _Asked, request: CreateTopicsRequest) -> Permitted:
    if asked.may(CREATE_CLUSTER):
        return Permitted(request, [], is_empty=False)

    def refuse(topic: Any) -> CreatableTopicResult | None:
        if asked.may(CREATE_TOPIC, topic.name):
            return None
        return CreatableTopicResult(name=topic.name, error_code=_REFUSED, error_message=None)

    left, refused = _split(request.topics, lambda topic: topic.name, refuse)
    rest = CreateTopicsRequest(
        topics=left, timeout_ms=request.timeout_ms, validate_only=request.validate_only
    )
    return Permitted(rest, refused, is_empty=bool(refused) and not left)


def _create_partitions(asked: _Asked, request: CreatePartitionsRequest) -> Permitted:
    def refuse(topic: Any) -> CreatePartitionsTopicResult | None:
        if asked.may(ALTER_TOPIC, topic.name):
            return None
        return CreatePartitionsTopicResult(name=topic.name, error_code=_REFUSED)

    left, refused = _split(request.topics, lambda topic: topic.name, refuse)
    rest = CreatePartitionsRequest(
        topics=left, timeout_ms=request.timeout_ms, validate_only=request.validate_only
    )
    return Permitted(rest, refused, is_empty=bool(refused) and not left)


def _delete_topics(asked: _Asked, request: DeleteTopicsRequest) -> Permitted:
    """A topic's name is given only to a client that may describe it; an id that no topic has is
    answered by the controller."""
    if asked.may(DELETE_CLUSTER):
        return Permitted(request, [], is_empty=False)

    def refuse_name(name: str) -> DeletableTopicResult | None:
        is_seen = asked.may(DESCRIBE_TOPIC, name)
        if is_seen and (name not in asked.image.topics_by_name or asked.may(DELETE_TOPIC, name)):
            return None
        return DeletableTopicResult(name=name, error_code=_REFUSED)

    def refuse(topic: Any) -> DeletableTopicResult | None:
        if topic.name is not None:
            is_named_twice = topic.topic_id != Uuid.ZERO  # whatever it is, that is refused
            return None if is_named_twice else refuse_name(topic.name)
        known = asked.image.topics_by_id.get(topic.topic_id)
        if known is None:
            return None
        name = known.name if asked.may(DESCRIBE_TOPIC, known.name) else None
        if name is not None and asked.may(DELETE_TOPIC, name):
            return None
        return DeletableTopicResult(name=name, topic_id=topic.topic_id, error_code=_REFUSED)

    names, refused_names = _split(request.topic_names, str, refuse_name)
    topics, refused = _split(request.topics, lambda topic: (topic.name, topic.topic_id), refuse)
    refused += refused_names
    rest = DeleteTopicsRequest(topics=topics, topic_names=names, timeout_ms=request.timeout_ms)
    return Permitted(rest, refused, is_empty=bool(refused) and not (names or topics))


_CONFIGS: Final[Mapping[int, Permission]] = {
    RESOURCE_TOPIC: ALTER_TOPIC_CONFIGS,
    RESOURCE_GROUP: ALTER_GROUP_CONFIGS,
    RESOURCE_BROKER: ALTER_CLUSTER_CONFIGS,
    RESOURCE_CLIENT_METRICS: ALTER_CLUSTER_CONFIGS,
    RESOURCE_BROKER_LOGGER: CLUSTER_ACTION,
}
"""What configs of resources are changed with at a controller, whose loggers are meant by the last.
Another type is the controller's to refuse."""


def config_refusal(access: Access, client: Client, resource: Any) -> ErrorCode:
    """Why the client may not change the resource's configs at a controller; NONE if it may."""
    permission = _CONFIGS.get(resource.resource_type)
    if permission is None:
        return ErrorCode.NONE
    is_named = resource.resource_type in (RESOURCE_TOPIC, RESOURCE_GROUP)
    return access.refusal(client, permission, resource.resource_name if is_named else CLUSTER_NAME)


def _alter_configs(asked: _Asked, request: Any, make_result: Callable[..., Any]) -> Permitted:
    def refuse(resource: Any) -> Any | None:
        error = config_refusal(asked.access, asked.client, resource)
        if not error:
            return None
        return make_result(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_code=int(error),
            error_message=None,
        )

    left, refused = _split(
        request.resources, lambda one: (one.resource_type, one.resource_name), refuse
    )
    rest = type(request)(resources=left, validate_only=request.validate_only)
    return Permitted(rest, refused, is_empty=bool(refused) and not left)


_BY_ROW: Final[Mapping[type[Message], Callable[[_Asked, Any], Permitted]]] = {
    CreateTopicsRequest: _create_topics,
    CreatePartitionsRequest: _create_partitions,
    DeleteTopicsRequest: _delete_topics,
    alter_configs.AlterConfigsRequest: lambda asked, request: _alter_configs(
        asked, request, alter_configs.AlterConfigsResourceResponse
    ),
    incremental_alter_configs.IncrementalAlterConfigsRequest: lambda asked, request: _alter_configs(
        asked, request, incremental_alter_configs.AlterConfigsResourceResponse
    ),
}
