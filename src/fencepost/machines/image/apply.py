"""From one image and some records to the next image.

Theory of operation
-------------------
`apply_records` is the only way to a new image, for a controller that has just decided the records,
for one that replays its log, and for a broker that follows it. So there is one place where the
meaning of a record stands, and live state cannot differ from replayed state.

The work is done in an `_Draft`, which collects what the records change (a topic's partitions become
a list there, once per batch) and is then woven into the old image's persistent maps. The cost is
proportional to what the records touch.

Records must fit the image: a change to a partition, topic or broker epoch that does not exist is
`ReplayError`. Controllers never write such a record, so it means a damaged log or a mistake of
ours, and a node must stop rather than go on with an image that no other node has.

Between `BeginTransactionRecord` and `EndTransactionRecord` records are kept apart in the image's
`pending`; at the end they take effect together, and an abort drops them (KIP-868).

Records of kinds that are not interpreted here are kept in `others` under a key that makes a later
record replace or remove an earlier one, so that nothing is lost when an image is written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from fencepost.machines.image.acls import Acl
from fencepost.machines.image.model import (
    RESOURCE_TOPIC,
    BrokerImage,
    ClusterImage,
    ControllerImage,
    FeatureRange,
    ListenerImage,
    PartitionImage,
    Shared,
    TopicImage,
)
from fencepost.machines.image.quotas import QuotaEntity, changed, entity_of
from fencepost.machines.image.scram import ScramCredential, credential_of_record
from fencepost.machines.image.tokens import TokenImage, token_of_record
from fencepost.wire.message import Message
from fencepost.wire.records import metadata as records
from fencepost.wire.types import Uuid


class ReplayError(Exception):
    """A record speaks of something that the image does not have."""


def apply_records(
    image: ClusterImage,
    messages: Iterable[Message],
    offset: int | None = None,
    epoch: int | None = None,
) -> ClusterImage:
    """The image after `messages`, the last of which stands at `offset`, written in `epoch`.

    With None the old image's offset or epoch stays. Raises ReplayError.
    """
    draft = _Draft(image)
    for message in messages:
        draft.take(message)
    return draft.finish(
        image.offset if offset is None else offset, image.epoch if epoch is None else epoch
    )


class _Draft:
    """An image in the making: what the records so far change, over the old image."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._features: dict[str, int] | None = None
        self._brokers: dict[int, BrokerImage | None] = {}
        self._controllers: dict[int, ControllerImage | None] = {}
        # A topic is in _topics as soon as the draft has looked into it; None means deleted.
        self._topics: dict[Uuid, tuple[str, list[PartitionImage]] | None] = {}
        self._ids_by_name: dict[str, Uuid | None] = {}
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self._acls: dict[Uuid, Acl | None] = {}
        self._quotas: dict[QuotaEntity, Mapping[str, float]] = {}
        self._shared: Shared = {}
        self._scram: dict[tuple[str, int], ScramCredential | None] = {}
        self._tokens: dict[str, TokenImage | None] = {}
        self._others: dict[tuple[object, ...], Message | None] = {}
        self._next_producer_id = image.next_producer_id
        self._pending: list[Message] | None = None
        if image.pending is not None:
            self._pending = list(image.pending)

    # -- transactions ------------------------------------------------------------------------

    def take(self, record: Message) -> None:
        """Take one record: at once, or into the pending transaction."""
        if isinstance(record, records.BeginTransactionRecord):
            if self._pending is not None:
                raise ReplayError("a metadata transaction begins inside another")
            self._pending = []
        elif isinstance(record, records.EndTransactionRecord):
            for held in self._taken_pending("ends"):
                self._apply(held)
        elif isinstance(record, records.AbortTransactionRecord):
            self._taken_pending("is aborted")
        elif self._pending is not None:
            self._pending.append(record)
        else:
            self._apply(record)

    def _taken_pending(self, verb: str) -> list[Message]:
        if self._pending is None:
            raise ReplayError(f"a metadata transaction {verb} that has not begun")
        held, self._pending = self._pending, None
        return held

    def _apply(self, record: Message) -> None:
        handler = _HANDLERS.get(type(record))
        if handler is not None:
            handler(self, record)
        else:
            self._keep_other(record)

    # -- nodes and features ------------------------------------------------------------------

    def _register_broker(self, record: records.RegisterBrokerRecord) -> None:
        cordoned = record.cordoned_log_dirs
        self._brokers[record.broker_id] = BrokerImage(
            broker_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            listeners=tuple(
                ListenerImage(e.name, e.host, e.port, e.security_protocol)
                for e in record.end_points
            ),
            features=tuple(
                FeatureRange(f.name, f.min_supported_version, f.max_supported_version)
                for f in record.features
            ),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=tuple(record.log_dirs),
            cordoned_log_dirs=None if cordoned is None else tuple(cordoned),
        )

    def _unregister_broker(self, record: records.UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        self._brokers[record.broker_id] = None

    def _fence_broker(self, record: records.FenceBrokerRecord) -> None:
        broker = self._broker(record.id, record.epoch)
        self._brokers[record.id] = replace(broker, fenced=True)

    def _unfence_broker(self, record: records.UnfenceBrokerRecord) -> None:
        broker = self._broker(record.id, record.epoch)
        self._brokers[record.id] = replace(broker, fenced=False)

    def _change_broker(self, record: records.BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        changes: dict[str, Any] = {}
        if record.fenced:
            changes["fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
        if record.log_dirs:
            changes["log_dirs"] = tuple(record.log_dirs)
        if record.cordoned_log_dirs is not None:
            changes["cordoned_log_dirs"] = tuple(record.cordoned_log_dirs)
        self._brokers[record.broker_id] = replace(broker, **changes)

    def _broker(self, broker_id: int, epoch: int) -> BrokerImage:
        broker = self._brokers.get(broker_id)
        if broker is None and broker_id not in self._brokers:
            broker = self._image.brokers.get(broker_id)
        if broker is None:
            raise ReplayError(f"broker {broker_id} is not registered")
        if broker.epoch != epoch:
            raise ReplayError(f"broker {broker_id} has epoch {broker.epoch}, not {epoch}")
        return broker

    def _register_controller(self, record: records.RegisterControllerRecord) -> None:
        self._controllers[record.controller_id] = ControllerImage(
            controller_id=record.controller_id,
            incarnation_id=record.incarnation_id,
            listeners=tuple(
                ListenerImage(e.name, e.host, e.port, e.security_protocol)
                for e in record.end_points
            ),
            features=tuple(
                FeatureRange(f.name, f.min_supported_version, f.max_supported_version)
                for f in record.features
            ),
            zk_migration_ready=record.zk_migration_ready,
        )

    def _unregister_controller(self, record: records.UnregisterControllerRecord) -> None:
        self._controllers[record.controller_id] = None

    def _set_feature(self, record: records.FeatureLevelRecord) -> None:
        if self._features is None:
            self._features = dict(self._image.features)
        if record.feature_level == 0:
            self._features.pop(record.name, None)
        else:
            self._features[record.name] = record.feature_level

    # -- topics and partitions ---------------------------------------------------------------

    def _add_topic(self, record: records.TopicRecord) -> None:
        if self._topic(record.topic_id) is not None:
            raise ReplayError(f"topic id {record.topic_id} exists already")
        if self._topic_id(record.name) is not None:
            raise ReplayError(f"topic {record.name} exists already")
        self._topics[record.topic_id] = (record.name, [])
        self._ids_by_name[record.name] = record.topic_id

    def _remove_topic(self, record: records.RemoveTopicRecord) -> None:
        name, _ = self._topic_or_raise(record.topic_id)
        self._topics[record.topic_id] = None
        self._ids_by_name[name] = None
        self._configs[RESOURCE_TOPIC, name] = {}

    def _add_partition(self, record: records.PartitionRecord) -> None:
        name, partitions = self._topic_or_raise(record.topic_id)
        if record.partition_id != len(partitions):
            raise ReplayError(
                f"partition {record.partition_id} of {name} comes after {len(partitions)} others"
            )
        partitions.append(PartitionImage.from_record(record, self._shared))

    def _change_partition(self, record: records.PartitionChangeRecord) -> None:
        name, partitions = self._topic_or_raise(record.topic_id)
        index = record.partition_id
        if not 0 <= index < len(partitions):
            raise ReplayError(f"topic {name} has no partition {index}")
        partitions[index] = partitions[index].merged_with(record)

    def _clear_elr(self, record: records.ClearElrRecord) -> None:
        if record.topic_name:
            topic_id = self._topic_id(record.topic_name)
            # One that is deleted in the same batch has nothing to clear (KAFKA-19383).
            topic_ids = [] if topic_id is None else [topic_id]
        else:
            topic_ids = [*self._image.topics_by_id, *self._topics]
        for topic_id in topic_ids:
            topic = self._topic(topic_id)
            for index, partition in enumerate(topic[1] if topic is not None else ()):
                if partition.eligible_leader_replicas or partition.last_known_elr:
                    topic[1][index] = replace(  # type: ignore[index]
                        partition,
                        eligible_leader_replicas=(),
                        last_known_elr=(),
                        partition_epoch=partition.partition_epoch + 1,
                    )

    def _topic(self, topic_id: Uuid) -> tuple[str, list[PartitionImage]] | None:
        """The topic's name and its partitions, open to be changed."""
        if topic_id not in self._topics:
            topic = self._image.topics_by_id.get(topic_id)
            if topic is None:
                return None
            self._topics[topic_id] = (topic.name, list(topic.partitions))
        return self._topics[topic_id]

    def _topic_or_raise(self, topic_id: Uuid) -> tuple[str, list[PartitionImage]]:
        topic = self._topic(topic_id)
        if topic is None:
            raise ReplayError(f"no topic has the id {topic_id}")
        return topic

    def _topic_id(self, name: str) -> Uuid | None:
        if name in self._ids_by_name:
            return self._ids_by_name[name]
        topic = self._image.topics_by_name.get(name)
        return None if topic is None else topic.topic_id

    # -- ACLs ----------------------------------------------------------------------------------

    def _add_acl(self, record: records.AccessControlEntryRecord) -> None:
        self._acls[record.id] = Acl.from_record(record)

    def _remove_acl(self, record: records.RemoveAccessControlEntryRecord) -> None:
        if self._acls.get(record.id, self._image.acls.get(record.id)) is None:
            raise ReplayError(f"no ACL has the id {record.id}")
        self._acls[record.id] = None

    # -- users and tokens --------------------------------------------------------------------

    def _set_scram_credential(self, record: records.UserScramCredentialRecord) -> None:
        self._scram[record.name, record.mechanism] = credential_of_record(record)

    def _remove_scram_credential(self, record: records.RemoveUserScramCredentialRecord) -> None:
        key = (record.name, record.mechanism)
        known = self._scram if key in self._scram else self._image.scram
        if known.get(key) is None:
            raise ReplayError(f"user {record.name} has no credential of mechanism {key[1]}")
        self._scram[key] = None

    def _set_token(self, record: records.DelegationTokenRecord) -> None:
        self._tokens[record.token_id] = token_of_record(record)

    def _remove_token(self, record: records.RemoveDelegationTokenRecord) -> None:
        # A token that is gone already is none of ReplayError's: Kafka's controller looks at the
        # committed tokens, and so may remove one twice.
        self._tokens[record.token_id] = None

    # -- configs, quotas, producer ids, and what is not interpreted ---------------------------

    def _set_config(self, record: records.ConfigRecord) -> None:
        key = (record.resource_type, record.resource_name)
        values = self._configs.get(key)
        if values is None:
            values = self._configs[key] = dict(self._image.configs.get(key, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value

    def _set_quota(self, record: records.ClientQuotaRecord) -> None:
        entity = entity_of(record.entity)
        values = self._quotas.get(entity)
        if values is None:
            values = self._image.quotas.get(entity, {})
        self._quotas[entity] = changed(values, record)

    def _give_out_producer_ids(self, record: records.ProducerIdsRecord) -> None:
        if record.next_producer_id <= self._next_producer_id:
            raise ReplayError(
                f"producer ids go back from {self._next_producer_id} to {record.next_producer_id}"
            )
        self._next_producer_id = record.next_producer_id

    def _ignore(self, record: Message) -> None:
        del record  # NoOpRecord: it moved the offset, and that was its purpose

    def _keep_other(self, record: Message) -> None:
        kept = _KEPT_KEYS.get(type(record))
        key = kept(record) if kept is not None else (type(record).record_id,)
        self._others[key] = record

    # -- the new image -------------------------------------------------------------------------

    def finish(self, offset: int, epoch: int) -> ClusterImage:
        """Weave the changes into the old image."""
        image = self._image
        by_id: dict[Uuid, TopicImage | None] = {}
        by_name: dict[str, TopicImage | None] = dict.fromkeys(
            name for name, topic_id in self._ids_by_name.items() if topic_id is None
        )
        for topic_id, topic in self._topics.items():
            if topic is None:
                by_id[topic_id] = None
                continue
            name, partitions = topic
            by_id[topic_id] = by_name[name] = _same_or_new(
                image.topics_by_id.get(topic_id), name, topic_id, partitions
            )
        features = image.features
        if self._features is not None:
            features = MappingProxyType(self._features)
        return ClusterImage(
            offset=offset,
            epoch=epoch,
            features=features,
            brokers=image.brokers.update(self._brokers),
            controllers=image.controllers.update(self._controllers),
            topics_by_name=image.topics_by_name.update(by_name),
            topics_by_id=image.topics_by_id.update(by_id),
            configs=image.configs.update(
                {key: MappingProxyType(v) if v else None for key, v in self._configs.items()}
            ),
            next_producer_id=self._next_producer_id,
            acls=image.acls.update(self._acls),
            scram=image.scram.update(self._scram),
            tokens=image.tokens.update(self._tokens),
            quotas=image.quotas.update({key: v or None for key, v in self._quotas.items()}),
            others=image.others.update(self._others),
            pending=None if self._pending is None else tuple(self._pending),
        )


def _same_or_new(
    old: TopicImage | None, name: str, topic_id: Uuid, partitions: list[PartitionImage]
) -> TopicImage:
    """The old topic if nothing has changed in it, so that a comparison finds nothing either."""
    if (
        old is not None
        and len(old.partitions) == len(partitions)
        and all(a is b for a, b in zip(old.partitions, partitions, strict=True))
    ):
        return old
    return TopicImage(name, topic_id, tuple(partitions))


_HANDLERS: Mapping[type[Message], Callable[[_Draft, Any], None]] = {
    records.RegisterBrokerRecord: _Draft._register_broker,
    records.UnregisterBrokerRecord: _Draft._unregister_broker,
    records.FenceBrokerRecord: _Draft._fence_broker,
    records.UnfenceBrokerRecord: _Draft._unfence_broker,
    records.BrokerRegistrationChangeRecord: _Draft._change_broker,
    records.RegisterControllerRecord: _Draft._register_controller,
    records.UnregisterControllerRecord: _Draft._unregister_controller,
    records.FeatureLevelRecord: _Draft._set_feature,
    records.TopicRecord: _Draft._add_topic,
    records.RemoveTopicRecord: _Draft._remove_topic,
    records.PartitionRecord: _Draft._add_partition,
    records.PartitionChangeRecord: _Draft._change_partition,
    records.ClearElrRecord: _Draft._clear_elr,
    records.ConfigRecord: _Draft._set_config,
    records.ClientQuotaRecord: _Draft._set_quota,
    records.ProducerIdsRecord: _Draft._give_out_producer_ids,
    records.AccessControlEntryRecord: _Draft._add_acl,
    records.RemoveAccessControlEntryRecord: _Draft._remove_acl,
    records.UserScramCredentialRecord: _Draft._set_scram_credential,
    records.RemoveUserScramCredentialRecord: _Draft._remove_scram_credential,
    records.DelegationTokenRecord: _Draft._set_token,
    records.RemoveDelegationTokenRecord: _Draft._remove_token,
    records.NoOpRecord: _Draft._ignore,
}
"""The kinds of records that are interpreted, and the method that knows what they mean."""


_KEPT_KEYS: Mapping[type[Message], Callable[[Any], tuple[object, ...]]] = {
    records.ZkMigrationStateRecord: lambda r: ("zk-migration",),
}
"""Kinds that are kept as they are, and what makes two of them about the same thing."""
