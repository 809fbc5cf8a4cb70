"""The records of `__share_group_state`, and the state of one share partition that they make.

A snapshot has the whole state; an update has what changed since (`wire.records.share`). The topic
is not compacted: a coordinator is loaded from the oldest snapshot that is still needed.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from fencepost.machines.share.state_batch import (
    NO_START_OFFSET,
    UNKNOWN_COMPLETE_COUNT,
    SharePartitionKey,
    StateBatch,
    batches_from,
    batches_to,
)
from fencepost.machines.share_state.merge import is_merged, merge_batches, merge_into
from fencepost.wire.message import Message
from fencepost.wire.records import share as wire

ShareStateRecord = tuple[Message, Message | None]
"""(key, value); a value of None is a tombstone."""

_VERSION: Final = 0
_EPOCH_MAX: Final = (1 << 31) - 1
_UNCHANGED: Final = -1
"""As the leader epoch or start offset of an update: it stays what it is."""


class ShareState(Struct, frozen=True):
    """The durable state of a share partition, and where its last snapshot is in the log."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    create_ms: int = 0
    """Wall clock of the last snapshot that was more than a repetition."""
    write_ms: int = 0
    """Wall clock of the last snapshot."""
    update_count: int = 0
    """How many updates follow the last snapshot."""
    snapshot_at: int = -1
    """The offset of the last snapshot in the log."""
    highest_leader_epoch: int = 0
    """Leaders of older epochs are refused. `leader_epoch` begins again when the state does."""

    @property
    def next_snapshot_epoch(self) -> int:
        """That of the next snapshot. It tells snapshots apart and does not order them, so it may
        begin again behind the largest."""
        return 0 if self.snapshot_epoch == _EPOCH_MAX else self.snapshot_epoch + 1

    @property
    def is_cold(self) -> bool:
        """Whether the last snapshot repeats the one before, so that the log can be pruned."""
        return self.create_ms != self.write_ms


def initial_state(state_epoch: int, start_offset: int, snapshot_epoch: int, ms: int) -> ShareState:
    """What InitializeShareGroupState begins."""
    is_known = start_offset != NO_START_OFFSET
    return ShareState(
        snapshot_epoch=snapshot_epoch,
        state_epoch=state_epoch,
        leader_epoch=0,
        start_offset=start_offset,
        delivery_complete_count=0 if is_known else UNKNOWN_COMPLETE_COUNT,
        batches=(),
        create_ms=ms,
        write_ms=ms,
    )


def snapshot_record(key: SharePartitionKey, state: ShareState) -> ShareStateRecord:
    """The whole state."""
    return _snapshot_key(key), wire.ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_ms,
        write_timestamp=state.write_ms,
        state_batches=batches_to(wire.StateBatch, state.batches),
    )


def update_record(key: SharePartitionKey, changed: ShareState) -> ShareStateRecord:
    """The offsets and epochs of `changed`, and of its batches those that were written now."""
    return wire.ShareUpdateKey(
        group_id=key.group_id, topic_id=key.topic_id, partition=key.partition
    ), wire.ShareUpdateValue(
        snapshot_epoch=changed.snapshot_epoch,
        leader_epoch=changed.leader_epoch,
        start_offset=changed.start_offset,
        delivery_complete_count=changed.delivery_complete_count,
        state_batches=batches_to(wire.StateBatch, changed.batches),
    )


def tombstone(key: SharePartitionKey) -> ShareStateRecord:
    """Nothing is stored of the share partition any more."""
    return _snapshot_key(key), None


def from_snapshot(
    before: ShareState | None, value: wire.ShareSnapshotValue, offset: int
) -> ShareState:
    """The state behind a snapshot at `offset` of the log."""
    batches = batches_from(value.state_batches)
    if not is_merged(batches):  # no coordinator writes that; what is merged into it relies on it
        batches = merge_batches(batches, NO_START_OFFSET)
    highest = 0 if before is None else before.highest_leader_epoch
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=batches,
        create_ms=value.create_timestamp,
        write_ms=value.write_timestamp,
        snapshot_at=offset,
        highest_leader_epoch=max(highest, value.leader_epoch),
    )


def after_update(
    before: ShareState | None, value: wire.ShareUpdateValue, offset: int
) -> ShareState:
    """The state behind an update at `offset` of the log.

    Where the snapshot that it refers to is not in the log any more, the update is all there is.
    """
    if before is None:
        before = ShareState(value.snapshot_epoch, 0, 0, NO_START_OFFSET, -1, (), snapshot_at=offset)
    start_offset, leader_epoch = value.start_offset, value.leader_epoch
    if start_offset == _UNCHANGED:
        start_offset = before.start_offset
    if leader_epoch == _UNCHANGED:
        leader_epoch = before.leader_epoch
    return replace(
        before,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=merge_into(before.batches, batches_from(value.state_batches), start_offset),
        update_count=before.update_count + 1,
        highest_leader_epoch=max(before.highest_leader_epoch, leader_epoch),
    )


class ShareStateCodec:
    """How the records are written."""

    @staticmethod
    def encode(record: ShareStateRecord) -> tuple[bytes, bytes | None]:
        """The bytes of a record."""
        key, value = record
        data = None if value is None else wire.encode_value(value, _VERSION)
        return wire.encode_key(key), data

    @staticmethod
    def decode(key: bytes, value: bytes | None) -> ShareStateRecord | None:
        """The record; None if it is of a type that is not known. DecodeError."""
        try:
            decoded = wire.decode_key(key)
        except wire.UnknownRecordTypeError:
            return None
        if value is None:
            return decoded, None
        return decoded, wire.decode_value(decoded, value)


def _snapshot_key(key: SharePartitionKey) -> wire.ShareSnapshotKey:
    return wire.ShareSnapshotKey(
        group_id=key.group_id, topic_id=key.topic_id, partition=key.partition
    )
