"""The requests by which brokers and controllers say of themselves what the controller must know."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Final

from fencepost.machines.broker.inputs import Registration
from fencepost.wire.api import alter_partition, broker_registration, controller_registration
from fencepost.wire.api.alter_partition import AlterPartitionRequest
from fencepost.wire.api.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryDataRequest,
    PartitionDataRequest,
    TopicDataRequest,
)
from fencepost.wire.api.broker_heartbeat import BrokerHeartbeatRequest
from fencepost.wire.message import Message
from fencepost.wire.types import Uuid

CORDONED_SINCE: Final = 2
"""The version of BrokerHeartbeat from which on it names cordoned directories (KIP-1066)."""
BROKER_EPOCHS_SINCE: Final = 3
"""The version of AlterPartition from which on members have their broker epochs (KIP-903)."""
FEATURES_FROM_ZERO_SINCE: Final = 4
"""The version of BrokerRegistration from which on features may begin at level 0 (KIP-1022)."""


def broker_registration_request(
    registration: Registration, offline: Iterable[Uuid] = ()
) -> broker_registration.BrokerRegistrationRequest:
    """Register a broker, without the directories that have failed since its start."""
    lost = frozenset(offline)
    return broker_registration.BrokerRegistrationRequest(
        broker_id=registration.broker_id,
        cluster_id=registration.cluster_id,
        incarnation_id=registration.incarnation_id,
        listeners=[
            broker_registration.Listener(
                name=one.name,
                host=one.host,
                port=one.port,
                security_protocol=one.security_protocol,
            )
            for one in registration.listeners
        ],
        features=[
            broker_registration.Feature(
                name=one.name,
                min_supported_version=one.min_level,
                max_supported_version=one.max_level,
            )
            for one in registration.features
        ],
        rack=registration.rack,
        log_dirs=sorted(set(registration.log_dirs) - lost),
        previous_broker_epoch=registration.previous_broker_epoch,
    )


def for_version(request: Message, version: int) -> Message:
    """The request as a controller understands it that has its API up to `version`.

    In a registration before v4 a feature whose levels begin at 0 must not be named: controllers of
    then take it for an error (KAFKA-17492). It counts as not offered. A heartbeat before v2 says
    nothing of cordoned directories. An AlterPartition before v3 has no broker epochs, so the
    controller cannot see that a replica has restarted with an empty disk (KIP-903).
    """
    if isinstance(request, broker_registration.BrokerRegistrationRequest):
        if version < FEATURES_FROM_ZERO_SINCE:
            request = copy(request)
            request.features = [one for one in request.features if one.min_supported_version > 0]
    elif isinstance(request, BrokerHeartbeatRequest) and version < CORDONED_SINCE:
        request = copy(request)
        request.cordoned_log_dirs = None
    elif isinstance(request, AlterPartitionRequest) and version < BROKER_EPOCHS_SINCE:
        request = copy(request)
        request.topics = [_without_epochs(topic) for topic in request.topics]
    return request


def _without_epochs(topic: alter_partition.TopicDataRequest) -> alter_partition.TopicDataRequest:
    return alter_partition.TopicDataRequest(
        topic_name=topic.topic_name,
        topic_id=topic.topic_id,
        partitions=[
            alter_partition.PartitionDataRequest(
                partition_index=one.partition_index,
                leader_epoch=one.leader_epoch,
                new_isr=[member.broker_id for member in one.new_isr_with_epochs],
                leader_recovery_state=one.leader_recovery_state,
                partition_epoch=one.partition_epoch,
            )
            for one in topic.partitions
        ],
    )


def controller_registration_request(
    registration: Registration,
) -> controller_registration.ControllerRegistrationRequest:
    """Register a controller (KIP-919)."""
    return controller_registration.ControllerRegistrationRequest(
        controller_id=registration.broker_id,
        incarnation_id=registration.incarnation_id,
        zk_migration_ready=False,
        listeners=[
            controller_registration.Listener(
                name=one.name,
                host=one.host,
                port=one.port,
                security_protocol=one.security_protocol,
            )
            for one in registration.listeners
        ],
        features=[
            controller_registration.Feature(
                name=one.name,
                min_supported_version=one.min_level,
                max_supported_version=one.max_level,
            )
            for one in registration.features
        ],
    )


def assignment_request(
    broker_id: int, broker_epoch: int, placed: Iterable[tuple[Uuid, int, Uuid]]
) -> AssignReplicasToDirsRequest:
    """Say in which directories replicas are: (topic id, partition, directory id)."""
    directories: dict[Uuid, dict[Uuid, list[int]]] = {}
    for topic_id, index, directory_id in placed:
        directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
    return AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        directories=[
            DirectoryDataRequest(
                id=directory_id,
                topics=[
                    TopicDataRequest(
                        topic_id=topic_id,
                        partitions=[PartitionDataRequest(partition_index=one) for one in indexes],
                    )
                    for topic_id, indexes in topics.items()
                ],
            )
            for directory_id, topics in directories.items()
        ],
    )
