"""The driver's ports of a broker: a node's, with logs of partitions beside the metadata log."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from fencepost.batch.header import read_header
from fencepost.batch.records import read_batch
from fencepost.log.disk import Buffer
from fencepost.machines.effects import Append, DropPrefix, Machine, Truncate
from fencepost.machines.fetcher import LeaderRequest
from fencepost.machines.group.codec import GroupCodec
from fencepost.machines.partition import AlterPartition
from fencepost.machines.share.state_batch import NO_START_OFFSET, SharePartitionKey
from fencepost.machines.share_state.records import ShareStateCodec
from fencepost.machines.transaction.records import TransactionCodec, TransactionRecord
from fencepost.runtime.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from fencepost.runtime.metadata.host import METADATA_KEY
from fencepost.sim.brokers.checkpoints import key_of, show_checkpoints
from fencepost.sim.brokers.process import BrokerProcess
from fencepost.sim.group_oracle import (
    NO_OFFSET,
    GenerationWrite,
    GroupWrite,
    HoldingWrite,
    OffsetKey,
    OffsetWrite,
    task_key,
)
from fencepost.sim.partition_oracle import Place, partition_batch, passed
from fencepost.sim.ports import SimPorts
from fencepost.sim.share_oracle import ShareStart
from fencepost.wire.message import Message
from fencepost.wire.records.group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from fencepost.wire.records.share import ShareSnapshotKey, ShareUpdateKey

_GROUP_CODEC: Final = GroupCodec()


def writes_of(data: Buffer) -> tuple[GroupWrite, ...]:
    """What a batch of `__consumer_offsets` says of groups and their offsets."""
    writes: list[GroupWrite] = []
    header = read_header(data)
    for row in read_batch(data, 0, header) if not header.is_control else ():
        key, value = _GROUP_CODEC.decode(row.key or b"", row.value) or (None, None)
        if isinstance(key, OffsetCommitKey):
            offset = value.offset if isinstance(value, OffsetCommitValue) else NO_OFFSET
            writes.append(OffsetWrite(OffsetKey(key.group, key.topic, key.partition), offset))
        elif isinstance(key, GroupMetadataKey):
            generation = value.generation if isinstance(value, GroupMetadataValue) else None
            writes.append(GenerationWrite(key.group, generation))
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            writes.append(_holding(key, value))
        elif isinstance(key, StreamsGroupCurrentMemberAssignmentKey):
            writes.append(_holding_tasks(key, value))
    return tuple(writes)


def _holding(key: ConsumerGroupCurrentMemberAssignmentKey, value: Message | None) -> HoldingWrite:
    if not isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        return HoldingWrite(key.group_id, key.member_id, None, frozenset())
    held = frozenset(
        (topic.topic_id, index)
        for topic in (*value.assigned_partitions, *value.partitions_pending_revocation)
        for index in topic.partitions
    )
    since = {
        (topic.topic_id, index): epoch
        for topic in (*value.assigned_partitions, *value.partitions_pending_revocation)
        for index, epoch in zip(topic.partitions, topic.assignment_epochs or (), strict=False)
    }
    return HoldingWrite(key.group_id, key.member_id, value.member_epoch, held, since)


def _holding_tasks(
    key: StreamsGroupCurrentMemberAssignmentKey, value: Message | None
) -> HoldingWrite:
    if not isinstance(value, StreamsGroupCurrentMemberAssignmentValue):
        return HoldingWrite(key.group_id, key.member_id, None, frozenset())
    held = frozenset(
        task_key(one.subtopology_id, index)
        for one in (*value.active_tasks, *value.active_tasks_pending_revocation)
        for index in one.partitions
    )
    return HoldingWrite(key.group_id, key.member_id, value.member_epoch, held)


def records_of(data: Buffer) -> tuple[TransactionRecord, ...]:
    """What a batch of `__transaction_state` says of transactional ids."""
    rows = read_batch(data, 0, read_header(data))
    decoded = (TransactionCodec.decode(row.key or b"", row.value) for row in rows)
    return tuple(record for record in decoded if record is not None)


def starts_of(data: Buffer) -> tuple[ShareStart, ...]:
    """What a batch of `__share_group_state` says of where share partitions begin."""
    starts: list[ShareStart] = []
    for row in read_batch(data, 0, read_header(data)):
        decoded = ShareStateCodec.decode(row.key or b"", row.value)
        if decoded is None:
            continue
        key, value = decoded
        assert isinstance(key, ShareSnapshotKey | ShareUpdateKey), "no other type is known"
        share = SharePartitionKey(key.group_id, key.topic_id, key.partition)
        start_offset = None if value is None else getattr(value, "start_offset", None)
        if start_offset != NO_START_OFFSET or isinstance(key, ShareSnapshotKey):
            starts.append(ShareStart(share, start_offset))
    return tuple(starts)


class BrokerPorts(SimPorts):
    """See the module docstring."""

    _node: BrokerProcess

    def send(self, key: Hashable, to: Any, message: Any) -> None:
        """The quorum's requests to nodes; all others to the active controller."""
        if key == METADATA_KEY:
            super().send(key, to, message)
        elif isinstance(message, LeaderRequest):
            self._node.followers.submit(key, to, message)
        elif isinstance(message, AlterPartition):
            self._node.alter_partitions.submit(key, message)
        else:
            self._node.registrations.submit(key, message)

    # -- the disk ------------------------------------------------------------------------------

    def append(self, key: Hashable, work: Append, wall_ms: int) -> int:
        """As the product does it; the observer notes what went in."""
        hosted = self._node.hosted(key)
        if hosted is None:
            return super().append(key, work, wall_ms)
        observer, partition = self._node.world.observer, key_of(hosted)
        known = observer.oracle.partitions.log(self._node.id, partition)
        cleaned = observer.oracle.partitions.cleaned(partition)
        known.on_their_way = len(work.batches) + len(cleaned)  # and what is gone between them
        end_offset = self.append_to_log(key, work, wall_ms)
        for batch in work.batches:
            appended = partition_batch(batch.data)
            if not work.as_leader:
                for one in passed(Place.TAKEN_OVER, self._node.id, partition, batch.data):
                    observer.batch_passed(one)
            if hosted.topic == OFFSETS_TOPIC:
                observer.oracle.groups.appended(partition, appended, writes_of(batch.data))
            elif hosted.topic == TRANSACTIONS_TOPIC:
                records = records_of(batch.data)
                observer.oracle.transactions.appended(partition, appended, records)
            elif hosted.topic == SHARE_STATE_TOPIC:
                observer.oracle.shares.appended(partition, appended, starts_of(batch.data))
            observer.replica_appended(self._node.id, partition, appended)
        known.on_their_way = 0
        return end_offset

    def truncate(self, key: Hashable, work: Truncate) -> int:
        """As the product does it; the observer looks first."""
        hosted = self._node.hosted(key)
        if hosted is None:
            return super().truncate(key, work)
        observer, partition = self._node.world.observer, key_of(hosted)
        known = observer.oracle.partitions.log(self._node.id, partition)
        cut_offset = known.start_offset if work.start_over else work.end_offset
        observer.replica_cutting(self._node.id, partition, cut_offset)
        known.cut_begins(cut_offset)
        end_offset = self.cut_log(key, work)
        if work.start_over:
            known.started_over(work.end_offset)
        else:
            known.cut(work.end_offset)
        self._node.look_at_epochs(hosted)
        show_checkpoints(self._node, hosted)
        self._node.sync_done()
        return end_offset

    def drop_prefix(self, key: Hashable, work: DropPrefix) -> None:
        """As the product does it; the observer notes where the log begins."""
        hosted = self._node.hosted(key)
        if hosted is None:
            super().drop_prefix(key, work)
            return
        self.drop_log_prefix(key, work)
        start_offset = hosted.log.start_offset
        self._node.world.observer.replica_starts(self._node.id, key_of(hosted), start_offset)
        self._node.look_at_epochs(hosted)

    def note_flushed(self, key: Hashable, end_offset: int) -> None:
        """A log is durable up to there: the observer notes it."""
        hosted = self._node.hosted(key)
        if hosted is None:
            super().note_flushed(key, end_offset)
        else:
            log = self._node.world.observer.oracle.partitions.log(self._node.id, key_of(hosted))
            log.flushed(end_offset)

    def stepped(self, key: Hashable, machine: Machine) -> None:
        """The product's watchers first, then the observer."""
        hosted = self._node.hosted(key)
        if hosted is None:
            super().stepped(key, machine)
            return
        self.watch_step(key, machine)
        self._node.look_at_replica(hosted)
