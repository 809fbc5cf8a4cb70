"""Of which partitions share coordinators keep a state for a share group (record 15).

A partition is dealt to members when its state is initialized. Initializing partitions wait for
their share coordinators; deleting topics do, too, whose state an administrator has deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from fencepost.machines.group.share.assignor import Partitions
from fencepost.machines.share.state_batch import NO_START_OFFSET
from fencepost.wire.records.group_share import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from fencepost.wire.types import Uuid

LATER_PARTITION_START: Final = 0
"""Where a group begins in a partition that was added to a topic it knows (KAFKA-20742)."""


class NamedPartitions(NamedTuple):
    """Partitions of a topic."""

    name: str
    partitions: frozenset[int]


Topics = Mapping[Uuid, NamedPartitions]
_NO_PARTITIONS: Final[frozenset[int]] = frozenset()


class InitializeStates(NamedTuple):
    """Have share coordinators begin the state of partitions; a group coordinator sends it."""

    group_id: str
    state_epoch: int
    starts: Mapping[Uuid, Mapping[int, int]]
    """The start offset of each partition, by topic."""

    @property
    def partitions(self) -> Partitions:
        """Those that are begun."""
        return {topic_id: frozenset(starts) for topic_id, starts in self.starts.items()}


class DeleteStates(NamedTuple):
    """Have share coordinators forget the state of partitions."""

    group_id: str
    topics: Topics


class StatePartitions(Struct, frozen=True):
    """See the module docstring. Each change is another value."""

    initializing: Topics = {}
    initialized: Topics = {}
    deleting: Mapping[Uuid, str] = {}
    """The names of the topics."""

    def known(self, topic_id: Uuid, *, with_initializing: bool) -> frozenset[int]:
        """The partitions of the topic whose state is initialized, or being initialized."""
        found = self.initialized.get(topic_id)
        known = _NO_PARTITIONS if found is None else found.partitions
        waiting = self.initializing.get(topic_id) if with_initializing else None
        return known if waiting is None else known | waiting.partitions

    def start_offset(self, topic_id: Uuid) -> int:
        """Where the group begins in a partition that is not initialized yet."""
        is_known = topic_id in self.initialized or topic_id in self.initializing
        return LATER_PARTITION_START if is_known else NO_START_OFFSET

    def begin(self, topics: Topics) -> StatePartitions:
        """These partitions are being initialized; a topic that is, is not deleted any more."""
        deleting = {one: name for one, name in self.deleting.items() if one not in topics}
        return replace(self, initializing=_united(self.initializing, topics), deleting=deleting)

    def finish(self, partitions: Partitions) -> StatePartitions:
        """Those of the partitions that are being initialized are initialized now."""
        done = {
            topic_id: NamedPartitions(topic.name, topic.partitions & partitions[topic_id])
            for topic_id, topic in self.initializing.items()
            if topic_id in partitions
        }
        return replace(self.give_up(partitions), initialized=_united(self.initialized, done))

    def give_up(self, partitions: Partitions) -> StatePartitions:
        """The partitions are not being initialized any more."""
        left = {
            topic_id: NamedPartitions(
                topic.name, topic.partitions - partitions.get(topic_id, _NO_PARTITIONS)
            )
            for topic_id, topic in self.initializing.items()
        }
        return replace(self, initializing=_not_empty(left))

    def delete(self, topic_ids: Collection[Uuid]) -> StatePartitions:
        """The initialized partitions of these topics are being deleted."""
        deleting = dict(self.deleting)
        deleting.update((one, self.initialized[one].name) for one in topic_ids)
        initialized = {one: topic for one, topic in self.initialized.items() if one not in deleting}
        return replace(self, initialized=initialized, deleting=deleting)

    def delete_all(self, names: Mapping[Uuid, str]) -> StatePartitions:
        """Nothing but these topics, which are being deleted."""
        return StatePartitions(deleting=names)

    def forget(self, topic_ids: Collection[Uuid]) -> StatePartitions:
        """These topics are deleted."""
        left = {one: name for one, name in self.deleting.items() if one not in topic_ids}
        return replace(self, deleting=left)

    def without_topics(self, gone: Collection[Uuid]) -> StatePartitions:
        """These topics are not in the cluster any more, and nothing is kept of them."""
        return StatePartitions(
            {one: topic for one, topic in self.initializing.items() if one not in gone},
            {one: topic for one, topic in self.initialized.items() if one not in gone},
            {one: name for one, name in self.deleting.items() if one not in gone},
        )

    @property
    def topic_ids(self) -> set[Uuid]:
        """All its topics."""
        return {*self.initializing, *self.initialized, *self.deleting}

    @property
    def everything(self) -> Topics:
        """The partitions that are initialized or being initialized."""
        return _united(self.initialized, self.initializing)

    @classmethod
    def from_record(cls, value: ShareGroupStatePartitionMetadataValue) -> StatePartitions:
        """What the record says."""
        return cls(
            _from_wire(value.initializing_topics),
            _from_wire(value.initialized_topics),
            {one.topic_id: one.topic_name for one in value.deleting_topics},
        )

    def to_record(self) -> ShareGroupStatePartitionMetadataValue:
        """The record that says it."""
        return ShareGroupStatePartitionMetadataValue(
            initializing_topics=_to_wire(self.initializing),
            initialized_topics=_to_wire(self.initialized),
            deleting_topics=[
                TopicInfo(topic_id=topic_id, topic_name=name)
                for topic_id, name in sorted(self.deleting.items())
            ],
        )


def _united(one: Topics, other: Topics) -> Topics:
    united = dict(one)
    for topic_id, (name, partitions) in other.items():
        before = united.get(topic_id)
        united[topic_id] = NamedPartitions(
            name, partitions if before is None else before.partitions | partitions
        )
    return _not_empty(united)


def _not_empty(topics: Topics) -> Topics:
    return {topic_id: topic for topic_id, topic in topics.items() if topic.partitions}


def _from_wire(topics: Iterable[TopicPartitionsInfo]) -> Topics:
    return {
        one.topic_id: NamedPartitions(one.topic_name, frozenset(one.partitions))
        for one in topics
        if one.partitions
    }


def _to_wire(topics: Topics) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=one, topic_name=name, partitions=sorted(partitions))
        for one, (name, partitions) in sorted(topics.items())
    ]
