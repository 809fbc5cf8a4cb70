"""What groups have really committed, in the order of the log, as the observer of brokers knows it.

`GroupOracle` is told what the batches of `__consumer_offsets` say when a replica appends them, and
which of them consumers may read. The order of the log is the order of commits: a commit that was on
its way for long may stand behind a later one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from fencepost.sim.partition_oracle import PartitionBatch, PartitionKey
from fencepost.wire.types import Uuid

NO_OFFSET = -1
NO_EPOCHS: Mapping[tuple[Uuid, int], int] = MappingProxyType({})


class OffsetKey(NamedTuple):
    """Whose offset of what: a group, the name of a topic, a partition's number."""

    group_id: str
    topic: str
    partition: int


class OffsetWrite(NamedTuple):
    """A record of `__consumer_offsets`. `offset` is `NO_OFFSET` where it forgets one."""

    key: OffsetKey
    offset: int


class GenerationWrite(NamedTuple):
    """A record of `__consumer_offsets` that stores a group. `generation` is None where it forgets
    the group, which may begin again then."""

    group_id: str
    generation: int | None


class HoldingWrite(NamedTuple):
    """A record of `__consumer_offsets` that says what a member of a consumer group has, what it has
    yet to give up included. `epoch` is the member's, or None where the member is forgotten.

    What is held are (topic id, number); no name of a topic is in the record. A member of a streams
    group holds its active tasks (`task_key`).
    """

    group_id: str
    member_id: str
    epoch: int | None
    held: frozenset[tuple[Uuid, int]]
    since: Mapping[tuple[Uuid, int], int] = NO_EPOCHS
    """The member epoch in which each was given."""


def task_key(subtopology_id: str, index: int) -> tuple[Uuid, int]:
    """How a task of a streams group is held, beside partitions of topics: its subtopology has an
    id of its own."""
    return Uuid(subtopology_id.encode().rjust(16, b"/")), index


GroupWrite = OffsetWrite | GenerationWrite | HoldingWrite


class SentByMember(NamedTuple):
    """Which member of a consumer group commits an offset, and the id of the topic it means."""

    member_id: str
    topic_id: Uuid


class AssignmentTold(NamedTuple):
    """A coordinator's answer to the SyncGroup of a member of `generation`: what it is to read.

    `partition` is that of `__consumer_offsets`; what is assigned are (topic, number). A static
    member goes by its instance id.
    """

    partition: PartitionKey
    group_id: str
    generation: int
    member_id: str
    assigned: frozenset[tuple[str, int]]


class HoldingTold(NamedTuple):
    """A coordinator's answer to a member of a consumer group, of either protocol.

    `partition` is that of `__consumer_offsets`; `held` is what the member is to own, or None where
    the answer does not say.
    """

    partition: PartitionKey
    group_id: str
    member_id: str
    epoch: int
    held: frozenset[PartitionKey] | None


class HoldingSaid(NamedTuple):
    """What a member of a consumer group says that it owns, in a request that has arrived."""

    partition: PartitionKey
    group_id: str
    member_id: str
    owned: frozenset[PartitionKey]


class OffsetsTold(NamedTuple):
    """A coordinator's answer about one offset, and what its partition's log was meanwhile.

    `from_offset` is the leader's high watermark when it was asked, `to_offset` when it answered.
    """

    partition: PartitionKey
    key: OffsetKey
    offset: int
    from_offset: int
    to_offset: int


class GroupOracle:
    """See the module docstring."""

    def __init__(self) -> None:
        self._written: dict[tuple[PartitionKey, int], tuple[GroupWrite, ...]] = {}
        self._histories: dict[tuple[PartitionKey, OffsetKey], list[tuple[int, int]]] = {}
        self._sent: dict[OffsetWrite, int] = {}
        self._sent_by: dict[OffsetWrite, SentByMember] = {}
        self._pending: dict[tuple[PartitionKey, int], list[tuple[int, OffsetWrite]]] = {}
        self._latest: dict[tuple[PartitionKey, OffsetKey], int] = {}
        self._consumer_groups: set[tuple[PartitionKey, str]] = set()
        self.upgrades = self.downgrades = 0
        """How often a group has become a consumer group, and a classic one again."""

    def sent(self, write: OffsetWrite, generation: int) -> None:
        """A member of this generation commits an offset, which no other member ever commits."""
        self._sent[write] = generation

    def generation_of(self, write: OffsetWrite) -> int | None:
        """The generation of the member that commits an offset; None if it was no member."""
        return self._sent.get(write)

    def sent_by_member(self, write: OffsetWrite, member_id: str, topic_id: Uuid) -> None:
        """A member of a consumer group commits an offset, which no other client ever commits."""
        self._sent_by[write] = SentByMember(member_id, topic_id)

    def sender_of(self, write: OffsetWrite) -> SentByMember | None:
        """The member of a consumer group that commits an offset; None if it was none."""
        return self._sent_by.get(write)

    def appended(
        self, partition: PartitionKey, batch: PartitionBatch, writes: tuple[GroupWrite, ...]
    ) -> None:
        """A replica has a batch that says this. A batch is known by its checksum."""
        self._written[partition, batch.crc] = writes

    def writes_in(self, partition: PartitionKey, batch: PartitionBatch) -> tuple[GroupWrite, ...]:
        """What a batch says, in its order."""
        return self._written.get((partition, batch.crc), ())

    def became_visible(self, partition: PartitionKey, batch: PartitionBatch) -> None:
        """A batch is committed; batches become so in the order of the log.

        What is written in a transaction counts from its marker on, unless something that stands
        behind it counts already.
        """
        producer = (partition, batch.producer_id)
        if batch.commits is not None:
            for at, pending in self._pending.pop(producer, ()):
                if batch.commits and at > self._latest.get((partition, pending.key), -1):
                    self._count(partition, batch.next_offset, at, pending)
            return
        for write in self.writes_in(partition, batch):
            if isinstance(write, HoldingWrite) and write.epoch is not None:
                if (partition, write.group_id) not in self._consumer_groups:
                    self._consumer_groups.add((partition, write.group_id))
                    self.upgrades += 1
            elif (
                isinstance(write, GenerationWrite)
                and write.generation is not None
                and (partition, write.group_id) in self._consumer_groups
            ):
                self._consumer_groups.remove((partition, write.group_id))
                self.downgrades += 1
            if not isinstance(write, OffsetWrite):
                continue
            if batch.is_transactional:
                self._pending.setdefault(producer, []).append((batch.base_offset, write))
            else:
                self._count(partition, batch.next_offset, batch.base_offset, write)

    def is_consumer_group(self, partition: PartitionKey, group_id: str) -> bool:
        """Whether a group is stored as a consumer group (KIP-848), and not as a classic one."""
        return (partition, group_id) in self._consumer_groups

    def _count(
        self, partition: PartitionKey, from_offset: int, at: int, write: OffsetWrite
    ) -> None:
        """What is written `at` that offset counts as soon as `from_offset` is committed."""
        history = self._histories.setdefault((partition, write.key), [])
        history.append((from_offset, write.offset))
        self._latest[partition, write.key] = at

    def committed(self, partition: PartitionKey, key: OffsetKey) -> list[int]:
        """All offsets that were committed, in the order of the log."""
        return [offset for _, offset in self._histories.get((partition, key), ())]

    def committed_between(
        self, partition: PartitionKey, key: OffsetKey, from_offset: int, to_offset: int
    ) -> list[int]:
        """What the committed offset was while the log was committed to between these offsets."""
        last = NO_OFFSET
        between = []
        for next_offset, offset in self._histories.get((partition, key), ()):
            if next_offset <= from_offset:
                last = offset
            elif next_offset <= to_offset:
                between.append(offset)
        return [last, *between]
