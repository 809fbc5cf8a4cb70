"""Keys and values of `__share_group_state`: what share groups have consumed (KIP-932).

Keys and values are framed as in every coordinator's log (`coordinator`). A snapshot (type 0) is the
whole state of a group in one partition. The updates (type 1) that follow, up to the next snapshot,
hold what has changed since the snapshot whose epoch they name.

The early access of Kafka 4.0 wrote values of version 0, too, but other ones: the snapshot epoch had
two bytes, and there were no timestamps. Those declared here are Kafka 4.1's and later, and the
older ones are DecodeErrors.
"""

from __future__ import annotations

from fencepost.wire.message import Message, Struct, field
from fencepost.wire.records.coordinator import CoordinatorLog, UnknownRecordTypeError
from fencepost.wire.types import Int8, Int16, Int32, Int64, String, Uuid

__all__ = [
    "ShareSnapshotKey",
    "ShareSnapshotValue",
    "ShareUpdateKey",
    "ShareUpdateValue",
    "StateBatch",
    "UnknownRecordTypeError",
    "decode_key",
    "decode_value",
    "encode_key",
    "encode_value",
]


class StateBatch(Struct):
    """A range of offsets in the same state."""

    first_offset: Int64 = field(doc="First offset of the range.")
    last_offset: Int64 = field(doc="Last offset of the range, which is part of it.")
    delivery_state: Int8 = field(
        doc="0 to be handed out (again), 2 processed, 4 given up. A lock (1) is never kept.",
    )
    delivery_count: Int16 = field(doc="How often the records have been handed out.")


class ShareSnapshotKey(Message, record_id=0, kind="coordinator-key", versions="0", flexible="none"):
    """Which partition as consumed by which group."""

    group_id: String = field("0", doc="Id of the share group.")
    topic_id: Uuid = field("0", doc="Id of the topic.")
    partition: Int32 = field("0", doc="Number of the partition.")


class ShareSnapshotValue(
    Message, record_id=0, kind="coordinator-value", versions="0", flexible="0+"
):
    """The whole state."""

    snapshot_epoch: Int32 = field(doc="Counter of snapshots of this state.")
    state_epoch: Int32 = field(
        doc="Epoch of the state, raised when it is begun again; writers of older ones are refused.",
    )
    leader_epoch: Int32 = field(
        doc="Term of the partition's leader that last used the state; 0 before the first.",
    )
    start_offset: Int64 = field(
        doc="First offset that is not settled; -1 until it is chosen where to begin.",
    )
    delivery_complete_count: Int32 = field(
        tag=0,
        default=-1,
        doc="Records from `start_offset` on that are settled; -1 when not counted (KIP-1226).",
    )
    create_timestamp: Int64 = field(
        doc="Milliseconds since 1970 at which a snapshot of this state was first written.",
    )
    write_timestamp: Int64 = field(
        doc=(
            "Milliseconds since 1970 at which this one was; later than `create_timestamp` when an "
            "unchanged state is written again, to free the log up to here."
        ),
    )
    state_batches: list[StateBatch] = field(
        doc="Offsets from `start_offset` on that have a history; the rest was never handed out.",
    )


class ShareUpdateKey(Message, record_id=1, kind="coordinator-key", versions="0", flexible="none"):
    """Which partition as consumed by which group."""

    group_id: String = field("0", doc="Id of the share group.")
    topic_id: Uuid = field("0", doc="Id of the topic.")
    partition: Int32 = field("0", doc="Number of the partition.")


class ShareUpdateValue(Message, record_id=1, kind="coordinator-value", versions="0", flexible="0+"):
    """A change since the last snapshot."""

    snapshot_epoch: Int32 = field(doc="Epoch of the snapshot that this changes.")
    leader_epoch: Int32 = field(
        doc="Term of the partition's leader that wrote it; -1 when it stays what it is.",
    )
    start_offset: Int64 = field(
        doc="First offset that is not settled now; -1 when it stays where it is.",
    )
    delivery_complete_count: Int32 = field(
        tag=0,
        default=-1,
        doc="Records from `start_offset` on that are settled; -1 when not counted (KIP-1226).",
    )
    state_batches: list[StateBatch] = field(
        doc="Offsets whose state changed, to be merged with what was there.",
    )


_LOG = CoordinatorLog(
    "__share_group_state",
    {
        0: (ShareSnapshotKey, ShareSnapshotValue),
        1: (ShareUpdateKey, ShareUpdateValue),
    },
)

encode_key = _LOG.encode_key
decode_key = _LOG.decode_key
encode_value = _LOG.encode_value
decode_value = _LOG.decode_value
