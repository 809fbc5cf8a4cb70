"""In which log directory each replica is (KIP-858), and which take no new ones (KIP-1066).

A broker with several directories places its replicas itself and tells the controller afterwards, so
that the loss of one directory costs it no more than the replicas in it. A directory that is not
among those the broker has online takes the replica out of its ISR, as if it had failed just now.
"""

from __future__ import annotations

from msgspec.structs import replace

from fencepost.machines.controller.partition_change import Target
from fencepost.machines.controller.partitions import (
    TopicPolicies,
    election_for,
    leadership,
    propose,
)
from fencepost.machines.image import BrokerImage, ClusterImage, TopicImage
from fencepost.wire.api import assign_replicas_to_dirs as wire
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)
from fencepost.wire.types import Uuid


def assign(
    image: ClusterImage,
    request: wire.AssignReplicasToDirsRequest,
    policies: TopicPolicies,
) -> tuple[wire.AssignReplicasToDirsResponse, list[PartitionChangeRecord]]:
    """The answer to a request whose sender's epoch is right, and the records."""
    records: list[PartitionChangeRecord] = []

    def answer(directory: Uuid, topic_id: Uuid, index: int) -> wire.PartitionDataResponse:
        error, record = _assign_one(image, request.broker_id, directory, topic_id, index, policies)
        if record is not None:
            records.append(record)
        return wire.PartitionDataResponse(partition_index=index, error_code=error)

    response = wire.AssignReplicasToDirsResponse(
        directories=[
            wire.DirectoryDataResponse(
                id=asked.id,
                topics=[
                    wire.TopicDataResponse(
                        topic_id=topic.topic_id,
                        partitions=[
                            answer(asked.id, topic.topic_id, one.partition_index)
                            for one in topic.partitions
                        ],
                    )
                    for topic in asked.topics
                ],
            )
            for asked in request.directories
        ]
    )
    return response, records


def cordon_records(
    image: ClusterImage, broker: BrokerImage, cordoned: list[Uuid] | None
) -> list[BrokerRegistrationChangeRecord]:
    """Note which of a broker's directories take no new replicas (KIP-1066); None: as before."""
    if cordoned is None or not image.has_cordoned_directories:
        return []
    if set(cordoned) == set(broker.cordoned_log_dirs or ()):
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id,
            broker_epoch=broker.epoch,
            cordoned_log_dirs=sorted(set(cordoned)),
        )
    ]


def _assign_one(
    image: ClusterImage,
    broker_id: int,
    directory: Uuid,
    topic_id: Uuid,
    index: int,
    policies: TopicPolicies,
) -> tuple[ErrorCode, PartitionChangeRecord | None]:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID, None
    partition = image.partition(topic_id, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    if broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, None
    if partition.directory_of(broker_id) == directory:
        return ErrorCode.NONE, None
    record = _moved(image, broker_id, topic, index, directory, policies)
    return ErrorCode.NONE, record


def _moved(
    image: ClusterImage,
    broker_id: int,
    topic: TopicImage,
    index: int,
    directory: Uuid,
    policies: TopicPolicies,
) -> PartitionChangeRecord | None:
    """Where the replica is now, and what else changes: a lost directory loses the leader, one that
    is found may bring it back."""
    partition = topic.partitions[index]
    target = Target(election=election_for(topic, policies), directories={broker_id: directory})
    if not image.brokers[broker_id].has_online_directory(directory):
        rest = tuple(id_ for id_ in partition.isr if id_ != broker_id)
        target = replace(target, isr=rest)
    directories = tuple(
        directory if replica == broker_id else known
        for replica, known in zip(partition.replicas, partition.directories, strict=True)
    )
    may_lead = leadership(image.brokers, replace(partition, directories=directories))
    return propose(image, topic, index, target, policies, may_lead)
