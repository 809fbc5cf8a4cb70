"""Committed offsets of all groups of one shard, and those that a transaction has not decided yet.

The last record of a (group, topic, partition) in the log is its offset. A record that a transaction
wrote counts from the moment its marker commits it, but by its own place in the log: if an ordinary
commit was written behind it, that one stays (KIP-98; KAFKA-15784).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fencepost.machines.coordinator import UndoLog
from fencepost.machines.group.rules import RULES, GroupRules
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
    record_offset: int
    """Where in the log its record is."""

    @classmethod
    def from_record(cls, value: OffsetCommitValue, record_offset: int) -> CommittedOffset:
        """The offset in a record."""
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )

    def is_of(self, topic_id: Uuid) -> bool:
        """Whether it may be of the topic with this id; where one is unknown, names decide."""
        return self.topic_id == Uuid.ZERO or topic_id in (Uuid.ZERO, self.topic_id)


class OffsetStore:
    """Offsets by group; mutated by `GroupCoordinator.apply` only."""

    def __init__(self, undo_log: UndoLog, rules: GroupRules = RULES) -> None:
        self._undo_log = undo_log
        self._rules = rules
        self._committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._undecided: dict[int, dict[tuple[str, TopicPartition], CommittedOffset]] = {}
        # The same by group: how many transactions have committed for a partition.
        self._counts: dict[str, dict[TopicPartition, int]] = {}

    @property
    def counts(self) -> Iterator[int]:
        """How many offsets each group has committed."""
        return (len(offsets) for offsets in self._committed.values())

    def of_group(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """The group's committed offsets; to be read only."""
        return self._committed.get(group_id, {})

    def group_ids(self) -> Iterator[str]:
        """Groups with committed offsets."""
        return iter(self._committed)

    def is_undecided(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether an open transaction has committed for the partition."""
        return partition in self._counts.get(group_id, ())

    def undecided_of(self, group_id: str) -> list[TopicPartition]:
        """The partitions for which open transactions have committed."""
        return list(self._counts.get(group_id, ()))

    def has_any(self, group_id: str) -> bool:
        """Whether the group has offsets, decided or not."""
        return group_id in self._committed or group_id in self._counts

    def put(
        self,
        group_id: str,
        partition: TopicPartition,
        value: OffsetCommitValue,
        record_offset: int,
        producer_id: int,
    ) -> None:
        """Note a commit; with a producer id it waits for the transaction's end."""
        undo_log = self._undo_log
        committed = CommittedOffset.from_record(value, record_offset)
        if not self._rules.is_visible(is_decided=producer_id < 0):
            if producer_id not in self._undecided:
                undo_log.put(self._undecided, producer_id, {})
            pending = self._undecided[producer_id]
            if (group_id, partition) not in pending:
                self._count(group_id, partition, 1)
            undo_log.put(pending, (group_id, partition), committed)
        else:
            self._put_committed(group_id, partition, committed)

    def _put_committed(
        self, group_id: str, partition: TopicPartition, committed: CommittedOffset
    ) -> None:
        if group_id not in self._committed:
            self._undo_log.put(self._committed, group_id, {})
        self._undo_log.put(self._committed[group_id], partition, committed)

    def _count(self, group_id: str, partition: TopicPartition, change: int) -> None:
        undo_log = self._undo_log
        if group_id not in self._counts:
            undo_log.put(self._counts, group_id, {})
        counts = self._counts[group_id]
        count = counts.get(partition, 0) + change
        if count:
            undo_log.put(counts, partition, count)
        else:
            undo_log.pop(counts, partition)
            if not counts:
                undo_log.pop(self._counts, group_id)

    def remove(self, group_id: str, partition: TopicPartition) -> None:
        """Forget the offset, undecided ones included."""
        undo_log = self._undo_log
        offsets = self._committed.get(group_id)
        if offsets is not None:
            undo_log.pop(offsets, partition)
            if not offsets:
                undo_log.pop(self._committed, group_id)
        if not self.is_undecided(group_id, partition):
            return
        for producer_id, pending in list(self._undecided.items()):
            if undo_log.pop(pending, (group_id, partition)) is not None:
                self._count(group_id, partition, -1)
            if not pending:
                undo_log.pop(self._undecided, producer_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> list[str]:
        """The producer's transaction ended; the groups that had a part in it."""
        pending = self._undo_log.pop(self._undecided, producer_id) or {}
        for group_id, partition in pending:
            self._count(group_id, partition, -1)
        for (group_id, partition), offset in pending.items() if committed else ():
            present = self.of_group(group_id).get(partition)
            if present is None or self._rules.counts(offset.record_offset, present.record_offset):
                self._put_committed(group_id, partition, offset)
        return list(dict.fromkeys(group_id for group_id, _ in pending))

    def snapshot(self) -> dict[str, dict[TopicPartition, tuple[int, int, str, int, int, Uuid]]]:
        """All committed offsets without their places in the log, for comparing two stores."""
        return {
            group_id: {partition: offset[:-1] for partition, offset in offsets.items()}
            for group_id, offsets in self._committed.items()
        }
