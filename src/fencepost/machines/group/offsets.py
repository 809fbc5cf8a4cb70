"""Committed offsets of all groups of one shard, and those that a transaction has not decided yet.

The last record of a (group, topic, partition) in the log is its offset. A record that a transaction
wrote counts from the moment its marker commits it, but by its own place in the log: if an ordinary
commit was written behind it, that one stays (KIP-98; KAFKA-15784). `order` numbers records as they
are applied, which is the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fencepost.wire.records.group import OffsetCommitValue
from fencepost.wire.types import Uuid

TopicPartition = tuple[str, int]


class CommittedOffset(NamedTuple):
    """What was committed for one partition. Times are milliseconds since 1970, -1 for none."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: Uuid
    order: int

    @classmethod
    def from_record(cls, value: OffsetCommitValue, order: int) -> CommittedOffset:
        """The offset in a record."""
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            order,
        )

    def is_of(self, topic_id: Uuid) -> bool:
        """Whether it may be of the topic with this id; where one is unknown, names decide."""
        return self.topic_id == Uuid.ZERO or topic_id in (Uuid.ZERO, self.topic_id)


class OffsetStore:
    """Offsets by group; mutated by `GroupCoordinator.apply` only."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._undecided: dict[int, dict[tuple[str, TopicPartition], CommittedOffset]] = {}
        self._order = 0

    def of_group(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """The group's committed offsets; to be read only."""
        return self._committed.get(group_id, {})

    def group_ids(self) -> Iterator[str]:
        """Groups with committed offsets."""
        return iter(self._committed)

    def is_undecided(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether an open transaction has committed for the partition."""
        key = (group_id, partition)
        return any(key in pending for pending in self._undecided.values())

    def undecided_of(self, group_id: str) -> list[TopicPartition]:
        """The partitions for which open transactions have committed."""
        found = {
            partition: None
            for pending in self._undecided.values()
            for pending_group, partition in pending
            if pending_group == group_id
        }
        return list(found)

    def has_any(self, group_id: str) -> bool:
        """Whether the group has offsets, decided or not."""
        return group_id in self._committed or bool(self.undecided_of(group_id))

    def put(
        self, group_id: str, partition: TopicPartition, value: OffsetCommitValue, producer_id: int
    ) -> None:
        """Note a commit; with a producer id it waits for the transaction's end."""
        self._order += 1
        committed = CommittedOffset.from_record(value, self._order)
        if producer_id >= 0:
            self._undecided.setdefault(producer_id, {})[group_id, partition] = committed
        else:
            self._committed.setdefault(group_id, {})[partition] = committed

    def remove(self, group_id: str, partition: TopicPartition) -> None:
        """Forget the offset, undecided ones included."""
        self._order += 1
        offsets = self._committed.get(group_id)
        if offsets is not None:
            offsets.pop(partition, None)
            if not offsets:
                del self._committed[group_id]
        for producer_id, pending in list(self._undecided.items()):
            pending.pop((group_id, partition), None)
            if not pending:
                del self._undecided[producer_id]

    def end_transaction(self, producer_id: int, *, committed: bool) -> list[str]:
        """The producer's transaction ended; the groups that had a part in it."""
        self._order += 1
        pending = self._undecided.pop(producer_id, {})
        for (group_id, partition), offset in pending.items() if committed else ():
            offsets = self._committed.setdefault(group_id, {})
            present = offsets.get(partition)
            if present is None or present.order < offset.order:
                offsets[partition] = offset
        return list(dict.fromkeys(group_id for group_id, _ in pending))

    def snapshot(self) -> dict[str, dict[TopicPartition, tuple[int, int, str, int, int, Uuid]]]:
        """All committed offsets without their order, for comparing two stores."""
        return {
            group_id: {partition: offset[:-1] for partition, offset in offsets.items()}
            for group_id, offsets in self._committed.items()
        }
