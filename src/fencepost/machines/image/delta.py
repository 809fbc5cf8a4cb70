"""What is different between two images, in the form in which a broker acts on it.

`diff` walks only what the images do not share. The delta is raw material: it says which partitions
changed and how; `ImageDelta.for_broker` answers the question a broker asks, namely what it now has
to lead, to follow, and to give up.
"""

from __future__ import annotations

from msgspec import Struct

from fencepost.machines.image.model import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from fencepost.wire.types import Uuid


class PartitionDelta(Struct, frozen=True):
    """One partition that differs: created without `old`, deleted without `new`."""

    topic: str
    topic_id: Uuid
    index: int
    old: PartitionImage | None
    new: PartitionImage | None

    @property
    def is_new_leader_epoch(self) -> bool:
        """Whether the term changed, so that who leads and who follows starts over."""
        if self.new is None:
            return False
        return self.old is None or self.old.leader_epoch != self.new.leader_epoch


class LocalChanges(Struct, frozen=True):
    """What a broker has to do; each partition is in at most one of the lists.

    `to_lead` and `to_follow` hold also partitions whose role is the same and whose ISR, replicas or
    epochs moved. `to_delete` are replicas that the broker no longer has; `deleted_topics` says for
    which of them the whole topic is gone.
    """

    to_lead: tuple[PartitionDelta, ...]
    to_follow: tuple[PartitionDelta, ...]
    to_delete: tuple[PartitionDelta, ...]
    deleted_topics: frozenset[Uuid]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.to_lead or self.to_follow or self.to_delete)


class ImageDelta(Struct, frozen=True):
    """The differences between two images.

    `resized_topics` are topics that existed and have more partitions now. A topic that was deleted
    and created again under the same name between the images stands in both lists, with two ids.
    Broker configs are named by broker id, or "" for those that all brokers share.
    """

    old: ClusterImage
    new: ClusterImage
    created_topics: tuple[TopicImage, ...]
    deleted_topics: tuple[TopicImage, ...]
    resized_topics: tuple[TopicImage, ...]
    partitions: tuple[PartitionDelta, ...]
    changed_topic_configs: tuple[str, ...]
    changed_broker_configs: tuple[str, ...]
    changed_other_configs: tuple[tuple[int, str], ...]
    brokers: tuple[tuple[int, BrokerImage | None, BrokerImage | None], ...]
    features_changed: bool

    @property
    def is_empty(self) -> bool:
        """Whether the images say the same about topics, brokers, configs and features."""
        return not (
            self.partitions
            or self.created_topics
            or self.deleted_topics
            or self.brokers
            or self.features_changed
            or self.changed_topic_configs
            or self.changed_broker_configs
            or self.changed_other_configs
        )

    def for_broker(self, broker_id: int) -> LocalChanges:
        """What the broker with this id has to do to be what the new image says."""
        lead: list[PartitionDelta] = []
        follow: list[PartitionDelta] = []
        delete: list[PartitionDelta] = []
        for change in self.partitions:
            had = change.old is not None and broker_id in change.old.replicas
            if change.new is None or broker_id not in change.new.replicas:
                if had:
                    delete.append(change)
            elif change.new.leader == broker_id:
                lead.append(change)
            else:
                follow.append(change)
        gone = frozenset(topic.topic_id for topic in self.deleted_topics)
        return LocalChanges(tuple(lead), tuple(follow), tuple(delete), gone)


def diff(old: ClusterImage, new: ClusterImage) -> ImageDelta:
    """What changed from `old` to `new`, in the order of topic names, partitions and broker ids."""
    created: list[TopicImage] = []
    deleted: list[TopicImage] = []
    resized: list[TopicImage] = []
    partitions: list[PartitionDelta] = []
    topics = sorted(
        new.topics_by_id.changes_since(old.topics_by_id),
        key=lambda change: (_name_of(change[1], change[2]), change[2] is not None, change[0]),
    )
    for _, before, after in topics:
        if before is None and after is not None:
            created.append(after)
        elif after is None and before is not None:
            deleted.append(before)
        elif len(after.partitions) != len(before.partitions):  # type: ignore[union-attr]
            resized.append(after)  # type: ignore[arg-type]
        partitions += _partition_deltas(before, after)
    configs = sorted(key for key, _, _ in new.configs.changes_since(old.configs))
    brokers = new.brokers.changes_since(old.brokers)
    return ImageDelta(
        old=old,
        new=new,
        created_topics=tuple(created),
        deleted_topics=tuple(deleted),
        resized_topics=tuple(resized),
        partitions=tuple(partitions),
        changed_topic_configs=tuple(name for kind, name in configs if kind == RESOURCE_TOPIC),
        changed_broker_configs=tuple(name for kind, name in configs if kind == RESOURCE_BROKER),
        changed_other_configs=tuple(
            key for key in configs if key[0] not in (RESOURCE_TOPIC, RESOURCE_BROKER)
        ),
        brokers=tuple(sorted(brokers, key=lambda change: change[0])),
        features_changed=old.features != new.features,
    )


def _name_of(before: TopicImage | None, after: TopicImage | None) -> str:
    topic = after if after is not None else before
    assert topic is not None, "a change has at least one side"
    return topic.name


def _partition_deltas(before: TopicImage | None, after: TopicImage | None) -> list[PartitionDelta]:
    topic = after if after is not None else before
    assert topic is not None, "a change has at least one side"
    befores = before.partitions if before is not None else ()
    afters = after.partitions if after is not None else ()
    deltas = [
        PartitionDelta(topic.name, topic.topic_id, index, old, new)
        for index, (old, new) in enumerate(zip(befores, afters, strict=False))
        if old is not new and old != new
    ]
    shared = len(befores) if len(befores) < len(afters) else len(afters)
    for index, old in enumerate(befores[shared:], shared):
        deltas.append(PartitionDelta(topic.name, topic.topic_id, index, old, None))
    for index, new in enumerate(afters[shared:], shared):
        deltas.append(PartitionDelta(topic.name, topic.topic_id, index, None, new))
    return deltas
