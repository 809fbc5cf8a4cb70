"""`ShareStateCoordinator`: the share coordinator of one partition of `__share_group_state`.

Theory of operation
-------------------
The leader of a share partition keeps what its consumers have done with each record in memory, and
writes what changes to the share coordinator before it answers them (KIP-932). What is written is a
`StateBatch` per range of offsets; the coordinator merges it into what it has (`merge`).

* A write is an update record, and after `updates_per_snapshot` of them a snapshot of the whole.
* Two epochs say whose writes count. The state epoch begins with InitializeShareGroupState, which
  an older one cannot replace (FENCED_STATE_EPOCH). The leader epoch is that of the partition's
  leader, which names it when it reads; older leaders are refused from then on
  (FENCED_LEADER_EPOCH).
* The topic is not compacted. Every `prune_interval_ms` its records below the oldest snapshot that
  is still needed are deleted (`PruneLog`). So that a share partition that is seldom written does
  not keep the others' records, it gets another snapshot when its last one is older than
  `cold_snapshot_interval_ms`; when the last snapshots of all are such repetitions, none is written.
* The state of a topic that is deleted is deleted, too.

Only brokers send these requests. Each method decides about one share partition and replies the row
of the response. The checks are Kafka 4.4's, in its order; a method's docstring has them. Of a batch
that ends before it begins Kafka makes a server error, or stores it; here it is INVALID_REQUEST, and
so are more batches than a share partition may have (`STATE_BATCHES_MAX`), which Kafka bounds only
by the size of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from fencepost.machines.coordinator import Decision as CoordinatorDecision, TimerName, UndoLog
from fencepost.machines.image import ClusterImage
from fencepost.machines.share.state_batch import (
    STATE_BATCHES_MAX,
    SharePartitionKey,
    StateBatch,
    batches_from,
    batches_to,
)
from fencepost.machines.share_state.config import ShareStateConfig
from fencepost.machines.share_state.merge import merge_batches, merge_into
from fencepost.machines.share_state.records import (
    ShareState,
    ShareStateRecord,
    after_update,
    from_snapshot,
    initial_state,
    snapshot_record,
    tombstone,
    update_record,
)
from fencepost.wire.api import (
    delete_share_group_state as deleting,
    initialize_share_group_state as initializing,
    read_share_group_state as reading,
    read_share_group_state_summary as summarizing,
    write_share_group_state as writing,
)
from fencepost.wire.errors import ErrorCode
from fencepost.wire.records.share import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from fencepost.wire.types import Uuid

Decision = CoordinatorDecision[ShareStateRecord]

COLD_TIMER: Final[TimerName] = ("cold",)
PRUNE_TIMER: Final[TimerName] = ("prune",)
DEFAULT_BATCH_BYTES_MAX: Final = 1024 * 1024 + 12
"""Kafka's default of `max.message.bytes`."""


class PruneLog(NamedTuple):
    """Have the records below `offset` deleted from the partition that `key` belongs to."""

    key: SharePartitionKey
    offset: int


class Refused(NamedTuple):
    """Why a share partition's row has an error, in Kafka's words."""

    error: ErrorCode
    message: str


NEGATIVE_PARTITION: Final = Refused(
    ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number."
)
NEGATIVE_LEADER_EPOCH: Final = Refused(
    ErrorCode.INVALID_REQUEST, "The leader epoch cannot be a negative number."
)
NEGATIVE_STATE_EPOCH: Final = Refused(
    ErrorCode.INVALID_REQUEST, "The state epoch cannot be a negative number."
)
WRITE_UNINITIALIZED: Final = Refused(
    ErrorCode.INVALID_REQUEST, "Write operation on uninitialized share partition not allowed."
)
READ_UNINITIALIZED: Final = Refused(
    ErrorCode.INVALID_REQUEST, "Read operation on uninitialized share partition not allowed."
)
REVERSED_BATCH: Final = Refused(
    ErrorCode.INVALID_REQUEST, "A state batch ends before its first offset."
)
TOO_MANY_BATCHES: Final = Refused(
    ErrorCode.INVALID_REQUEST, f"The share partition would have over {STATE_BATCHES_MAX} batches."
)
OLD_LEADER: Final = Refused(
    ErrorCode.FENCED_LEADER_EPOCH,
    "The leader epoch in the request is older than the epoch on the broker.",
)
OLD_STATE: Final = Refused(
    ErrorCode.FENCED_STATE_EPOCH,
    "The coordinator rejected the request because the state epoch did not match.",
)
UNKNOWN_PARTITION: Final = Refused(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)


class ShareStateCoordinator:
    """See the module docstring; implements `CoordinatorMachine`."""

    def __init__(
        self, config: ShareStateConfig, image: Callable[[], ClusterImage] = ClusterImage
    ) -> None:
        """`image` gives the cluster's metadata of now."""
        self._config = config
        self._image = image
        self.undo_log = UndoLog()
        self.max_batch_bytes = DEFAULT_BATCH_BYTES_MAX
        self.states: dict[SharePartitionKey, ShareState] = {}
        """To be read only."""
        self._last_key: SharePartitionKey | None = None
        self._last_offset = 0
        """Which share partition the last snapshot or tombstone was of, and where it is."""

    # State

    def apply(self, record: ShareStateRecord, offset: int, producer_id: int = -1) -> None:
        """A record is in the log at `offset`, or about to be."""
        wire_key, value = record
        assert isinstance(wire_key, ShareSnapshotKey | ShareUpdateKey), wire_key
        key = SharePartitionKey(wire_key.group_id, wire_key.topic_id, wire_key.partition)
        before = self.states.get(key)
        if isinstance(value, ShareUpdateValue):
            self.undo_log.put(self.states, key, after_update(before, value, offset))
            return
        if isinstance(value, ShareSnapshotValue):
            self.undo_log.put(self.states, key, from_snapshot(before, value, offset))
        else:
            self.undo_log.pop(self.states, key)
        self.undo_log.set_attribute(self, "_last_key", key)
        self.undo_log.set_attribute(self, "_last_offset", offset)

    def apply_transaction_end(self, producer_id: int, *, committed: bool) -> None:
        """Nothing: no transaction writes here."""

    def apply_change(self, change: Any) -> None:
        """Nothing changes in memory alone."""
        raise AssertionError(change)

    def discard(self) -> None:
        """The partition is unloaded."""
        self.states.clear()

    # Requests of brokers

    def decide_initialize(
        self, key: SharePartitionKey, asked: initializing.PartitionData, token: Any, wall_ms: int
    ) -> Decision:
        """InitializeShareGroupState v0 for one share partition; replies its PartitionResult.

        42: partition or state epoch below 0; 124: an older state epoch; 3: no such partition.
        """
        before = self.states.get(key)
        refused = None
        if key.partition < 0:
            refused = NEGATIVE_PARTITION
        elif asked.state_epoch < 0:
            refused = NEGATIVE_STATE_EPOCH
        elif before is not None and asked.state_epoch < before.state_epoch:
            refused = OLD_STATE
        elif not self._exists(key):
            refused = UNKNOWN_PARTITION
        decision = Decision()
        if refused is None:
            epoch = 0 if before is None else before.next_snapshot_epoch
            state = initial_state(asked.state_epoch, asked.start_offset, epoch, wall_ms)
            decision.records.append(snapshot_record(key, state))
        decision.reply(token, initializing.PartitionResult(**_row(key, refused)))
        return decision

    def decide_write(
        self, key: SharePartitionKey, asked: writing.PartitionData, token: Any, wall_ms: int
    ) -> Decision:
        """WriteShareGroupState v0-1 for one share partition; replies its PartitionResult.

        42: partition, leader epoch or state epoch below 0, or not initialized; 74: an older leader
        epoch; 124: an older state epoch; 3: no such partition.
        """
        before = self.states.get(key)
        refused = self._refuse_write(key, asked, before)
        decision = Decision()
        if refused is None and before is not None:
            decision.records.append(self._written(key, before, asked, wall_ms))
        decision.reply(token, writing.PartitionResult(**_row(key, refused)))
        return decision

    def decide_read(
        self, key: SharePartitionKey, asked: reading.PartitionData, token: Any, wall_ms: int
    ) -> Decision:
        """ReadShareGroupState v0 for one share partition; replies its PartitionResult.

        42: partition or leader epoch below 0, or not initialized; 74: an older leader epoch; 3: no
        such partition. A newer leader epoch is stored, and answered when it is committed.
        """
        before = self.states.get(key)
        refused = None
        if key.partition < 0:
            refused = NEGATIVE_PARTITION
        elif asked.leader_epoch < 0:
            refused = NEGATIVE_LEADER_EPOCH
        elif before is None:
            refused = READ_UNINITIALIZED
        elif asked.leader_epoch < before.highest_leader_epoch:
            refused = OLD_LEADER
        elif not self._exists(key):
            refused = UNKNOWN_PARTITION
        decision = Decision()
        result = reading.PartitionResult(**_row(key, refused))
        if refused is None and before is not None:
            result.state_epoch, result.start_offset = before.state_epoch, before.start_offset
            result.state_batches = batches_to(reading.StateBatch, before.batches)
            if asked.leader_epoch != before.highest_leader_epoch:
                led = replace(before, leader_epoch=asked.leader_epoch)
                decision.records.append(self._changed(key, led, (), wall_ms))
        decision.reply(token, result)
        return decision

    def decide_summary(
        self, key: SharePartitionKey, asked: summarizing.PartitionData, token: Any
    ) -> Decision:
        """ReadShareGroupStateSummary v0-1 for one share partition; replies its PartitionResult.

        42: partition below 0; 3: no such partition. Where nothing is initialized the offset is -1.
        """
        state = self.states.get(key)
        refused = None
        if key.partition < 0:
            refused = NEGATIVE_PARTITION
        elif not self._exists(key):
            refused = UNKNOWN_PARTITION
        result = summarizing.PartitionResult(**_row(key, refused))
        if refused is None:
            result.start_offset = -1
            if state is not None:
                result.state_epoch, result.leader_epoch = state.state_epoch, state.leader_epoch
                result.start_offset = state.start_offset
                result.delivery_complete_count = state.delivery_complete_count
        decision = Decision()
        decision.reply(token, result)
        return decision

    def decide_delete(
        self, key: SharePartitionKey, asked: deleting.PartitionData, token: Any
    ) -> Decision:
        """DeleteShareGroupState v0 for one share partition; replies its PartitionResult.

        42: partition below 0; 3: no such partition. Where there is no state it is a success.
        """
        refused = None
        if key.partition < 0:
            refused = NEGATIVE_PARTITION
        elif not self._exists(key):
            refused = UNKNOWN_PARTITION
        decision = Decision()
        if refused is None and key in self.states:
            decision.records.append(tombstone(key))
        decision.reply(token, deleting.PartitionResult(**_row(key, refused)))
        return decision

    # What no broker asks for

    def decide_loaded(self, wall_ms: int) -> Decision:
        """The whole partition is applied: forget topics that are gone, and look at cold partitions
        and at what can be pruned from time to time."""
        decision = self.decide_topics_deleted(
            {key.topic_id for key in self.states if key.topic_id not in self._image().topics_by_id}
        )
        decision.set_timer(COLD_TIMER, self._config.cold_snapshot_interval_ms)
        decision.set_timer(PRUNE_TIMER, self._config.prune_interval_ms)
        return decision

    def decide_topics_deleted(self, topic_ids: Collection[Uuid]) -> Decision:
        """These topics are gone from the cluster: their state goes too."""
        decision = Decision(is_atomic=False)
        decision.records += [tombstone(key) for key in self.states if key.topic_id in topic_ids]
        return decision

    def decide_timer(self, name: TimerName, wall_ms: int) -> Decision:
        """A timer that a decision set has fired."""
        decision = Decision(is_atomic=False)
        if name == COLD_TIMER:
            decision.records += self._cold_snapshots(wall_ms)
            decision.set_timer(COLD_TIMER, self._config.cold_snapshot_interval_ms)
        else:
            assert name == PRUNE_TIMER, name
            prune = self._prunable()
            if prune is not None:
                decision.sends.append(prune)
            decision.set_timer(PRUNE_TIMER, self._config.prune_interval_ms)
        return decision

    def _cold_snapshots(self, wall_ms: int) -> list[ShareStateRecord]:
        """A snapshot of each state whose last one is old; none if all are repetitions already."""
        if all(state.is_cold for state in self.states.values()):
            return []
        return [
            snapshot_record(
                key, replace(state, snapshot_epoch=state.next_snapshot_epoch, write_ms=wall_ms)
            )
            for key, state in self.states.items()
            if wall_ms - state.write_ms >= self._config.cold_snapshot_interval_ms
        ]

    def _prunable(self) -> PruneLog | None:
        """What is needed of the log begins at the oldest of the last snapshots."""
        if self.states:
            key, state = min(self.states.items(), key=lambda item: item[1].snapshot_at)
            return PruneLog(key, state.snapshot_at)
        if self._last_key is not None:
            return PruneLog(self._last_key, self._last_offset)
        return None

    def _exists(self, key: SharePartitionKey) -> bool:
        topic = self._image().topics_by_id.get(key.topic_id)
        return topic is not None and key.partition < len(topic.partitions)

    def _refuse_write(
        self, key: SharePartitionKey, asked: writing.PartitionData, before: ShareState | None
    ) -> Refused | None:
        if key.partition < 0:
            return NEGATIVE_PARTITION
        if asked.leader_epoch < 0:
            return NEGATIVE_LEADER_EPOCH
        if asked.state_epoch < 0:
            return NEGATIVE_STATE_EPOCH
        if before is None:
            return WRITE_UNINITIALIZED
        if asked.leader_epoch < before.highest_leader_epoch:
            return OLD_LEADER
        if asked.state_epoch < before.state_epoch:
            return OLD_STATE
        if not self._exists(key):
            return UNKNOWN_PARTITION
        if any(one.first_offset > one.last_offset for one in asked.state_batches):
            return REVERSED_BATCH
        if len(before.batches) + len(asked.state_batches) > STATE_BATCHES_MAX:
            written = batches_from(asked.state_batches)
            start_offset = max(asked.start_offset, before.start_offset)
            if len(merge_into(before.batches, written, start_offset)) > STATE_BATCHES_MAX:
                return TOO_MANY_BATCHES
        return None

    def _written(
        self,
        key: SharePartitionKey,
        before: ShareState,
        asked: writing.PartitionData,
        wall_ms: int,
    ) -> ShareStateRecord:
        """The record of a write. The start offset never goes back, and the delivery complete count
        is the larger one of those for the same start offset (KAFKA-20694)."""
        count = asked.delivery_complete_count
        if asked.start_offset == before.start_offset:
            count = max(count, before.delivery_complete_count)
        elif asked.start_offset < before.start_offset:
            count = before.delivery_complete_count
        start_offset = max(asked.start_offset, before.start_offset)
        after = replace(before, start_offset=start_offset, delivery_complete_count=count)
        return self._changed(key, after, batches_from(asked.state_batches), wall_ms)

    def _changed(
        self,
        key: SharePartitionKey,
        after: ShareState,
        written: tuple[StateBatch, ...],
        wall_ms: int,
    ) -> ShareStateRecord:
        """An update that writes these batches, or the snapshot that is due in its place."""
        start_offset = after.start_offset
        if after.update_count < self._config.updates_per_snapshot:
            return update_record(key, replace(after, batches=merge_batches(written, start_offset)))
        whole = replace(
            after,
            snapshot_epoch=after.next_snapshot_epoch,
            batches=merge_into(after.batches, written, start_offset),
            create_ms=wall_ms,
            write_ms=wall_ms,
        )
        return snapshot_record(key, whole)


def _row(key: SharePartitionKey, refused: Refused | None) -> dict[str, Any]:
    """What the rows of all responses have."""
    if refused is None:
        return {"partition": key.partition}
    return {
        "partition": key.partition,
        "error_code": int(refused.error),
        "error_message": refused.message,
    }
