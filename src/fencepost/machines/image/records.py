"""An image as metadata records: replayed over an empty image, they make the same image again.

The order is Kafka's (KIP-630): features with `metadata.version` first, because it may say how to
read what follows; brokers; controllers; topics, each with its partitions; configs; client quotas;
producer ids; ACLs; SCRAM credentials; delegation tokens; at last whatever else is kept.

A snapshot may only hold what the cluster's `metadata.version` knows, or an older node of the same
cluster could not read it. So records are written in the version that belongs to it, and what it
cannot say yet is left out, as Kafka does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from fencepost.machines.image.model import (
    DIRECTORIES_SINCE,
    METADATA_VERSION,
    SCRAM_SINCE,
    TOKENS_SINCE,
    BrokerImage,
    ClusterImage,
    ControllerImage,
    PartitionImage,
    TopicImage,
)
from fencepost.machines.image.quotas import quota_records
from fencepost.machines.image.scram import scram_records
from fencepost.machines.image.tokens import token_records
from fencepost.wire.message import Message
from fencepost.wire.records import metadata as records

_ELR_SINCE: Final = 23  # 4.0-IV1, KIP-966
_CORDONED_SINCE: Final = 30  # 4.3-IV0, KIP-1066
_CORDONED_VERSION: Final = 4
_VERSIONS_SINCE: Mapping[type[Message], tuple[tuple[int, int], ...]] = {
    records.PartitionRecord: ((_ELR_SINCE, 2), (DIRECTORIES_SINCE, 1), (0, 0)),
    records.PartitionChangeRecord: ((_ELR_SINCE, 2), (DIRECTORIES_SINCE, 1), (0, 0)),
    records.RegisterBrokerRecord: (
        (_CORDONED_SINCE, _CORDONED_VERSION),
        (DIRECTORIES_SINCE, 3),
        (8, 2),
        (0, 1),
    ),
}


def image_values(image: ClusterImage) -> Iterator[bytes]:
    """The image as values of log records, ready to be written. ValueError as `image_records`."""
    for record, version in image_records(image):
        yield records.encode_record(record, version)


def image_records(image: ClusterImage) -> Iterator[tuple[Message, int]]:
    """The image as records, each with the version it is to be written in.

    Raises ValueError in the midst of a metadata transaction: its records are not in force, and must
    not become so by being in a snapshot.
    """
    if image.pending is not None:
        raise ValueError("a metadata transaction is open")
    level = image.metadata_version
    others = _others_by_kind(image)
    yield from _features(image)
    yield from others.pop("zk-migration", ())
    for broker_id in sorted(image.brokers):
        yield _broker_record(image.brokers[broker_id], level)
    for controller_id in sorted(image.controllers):
        yield _controller_record(image.controllers[controller_id]), 0
    version = written_at(records.PartitionRecord, level)
    for name in sorted(image.topics_by_name):
        topic = image.topics_by_name[name]
        yield records.TopicRecord(name=name, topic_id=topic.topic_id), 0
        for index, partition in enumerate(topic.partitions):
            yield _partition_record(topic, index, partition, version), version
    for kind, resource in sorted(image.configs):
        for name, value in sorted(image.configs[kind, resource].items()):
            yield _config_record(kind, resource, name, value), 0
    for quota in quota_records(image.quotas):
        yield quota, 0
    if image.next_producer_id > 0:
        yield _producer_ids_record(image.next_producer_id), 0
    for acl_id in sorted(image.acls):
        yield image.acls[acl_id].to_record(acl_id), 0
    if level >= SCRAM_SINCE:
        yield from scram_records(image.scram)
    if level >= TOKENS_SINCE:
        yield from token_records(image.tokens)
    for rest in sorted(others, key=repr):
        yield from others[rest]


def record_value(record: Message, image: ClusterImage) -> bytes:
    """The value of the log record that holds `record`, the next one behind what `image` tells.

    EncodeError if it has something to say that the cluster's `metadata.version` does not know.
    """
    if isinstance(record, records.BrokerRegistrationChangeRecord):
        version = _least_version(record)
    else:
        version = written_at(type(record), image.metadata_version)
    return records.encode_record(record, version)


def written_at(record_class: type[Message], metadata_version: int) -> int:
    """The version in which such records are written at this level of `metadata.version`."""
    for since, version in _VERSIONS_SINCE.get(record_class, ()):
        if metadata_version >= since:
            return version
    return record_class.max_version


def _least_version(change: records.BrokerRegistrationChangeRecord) -> int:
    """The version that can say it: as Kafka does, so that only what is new needs new readers."""
    if change.cordoned_log_dirs is not None:
        return 3
    if change.log_dirs:
        return 2
    return 1 if change.in_controlled_shutdown else 0


def _features(image: ClusterImage) -> Iterator[tuple[Message, int]]:
    names = sorted(image.features, key=lambda name: (name != METADATA_VERSION, name))
    for name in names:
        yield records.FeatureLevelRecord(name=name, feature_level=image.features[name]), 0


def _broker_record(broker: BrokerImage, level: int) -> tuple[Message, int]:
    version = written_at(records.RegisterBrokerRecord, level)
    if broker.cordoned_log_dirs is not None:  # so its registration has been of this version
        version = _CORDONED_VERSION
    record = records.RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            records.BrokerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in broker.listeners
        ],
        features=[
            records.BrokerFeature(
                name=feature.name,
                min_supported_version=feature.min_level,
                max_supported_version=feature.max_level,
            )
            for feature in broker.features
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )
    if version >= written_at(records.RegisterBrokerRecord, DIRECTORIES_SINCE):
        record.log_dirs = list(broker.log_dirs)
    if broker.cordoned_log_dirs is not None:
        record.cordoned_log_dirs = list(broker.cordoned_log_dirs)
    return record, version


def _partition_record(
    topic: TopicImage, index: int, partition: PartitionImage, version: int
) -> Message:
    record = records.PartitionRecord(
        partition_id=index,
        topic_id=topic.topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )
    if version >= 1:
        record.directories = list(partition.directories)
    if version >= 2:
        if partition.eligible_leader_replicas:
            record.eligible_leader_replicas = list(partition.eligible_leader_replicas)
        if partition.last_known_elr:
            record.last_known_elr = list(partition.last_known_elr)
    return record


def _config_record(kind: int, resource: str, name: str, value: str) -> Message:
    return records.ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def _producer_ids_record(next_producer_id: int) -> Message:
    return records.ProducerIdsRecord(
        broker_id=-1, broker_epoch=-1, next_producer_id=next_producer_id
    )


def _controller_record(controller: ControllerImage) -> Message:
    return records.RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            records.ControllerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in controller.listeners
        ],
        features=[
            records.ControllerFeature(
                name=feature.name,
                min_supported_version=feature.min_level,
                max_supported_version=feature.max_level,
            )
            for feature in controller.features
        ],
    )


def _others_by_kind(image: ClusterImage) -> dict[object, list[tuple[Message, int]]]:
    found: dict[object, list[tuple[Message, int]]] = {}
    for key in sorted(image.others, key=repr):
        record = image.others[key]
        found.setdefault(key[0], []).append((record, type(record).max_version))
    return found
